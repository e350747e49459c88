"""Share groups as a Spark source: ranges on the driver, records on the executors, Arrow in between."""

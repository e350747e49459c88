"""Makes `format("kshare")` known to Spark without registration: it looks for modules named `pyspark_*`."""

from kshare.spark.source import KshareDataSource as DefaultSource

__all__ = ["DefaultSource"]

"""What a query needs to start over when its checkpoint can't be used: for error messages."""

NEW_CHECKPOINT = (
    "a new checkpointLocation and a new output path (files, Delta tables and others skip micro-batches whose numbers "
    'they know), and option("failOnLostCheckpoint", "false")'
)

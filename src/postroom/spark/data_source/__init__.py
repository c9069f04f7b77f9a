"""What all data sources and sinks share: names of options, columns as Spark's types, tables in Spark's
catalog, Python workers, the log of offsets in Spark's checkpoints.

May import `filesystems`.
"""

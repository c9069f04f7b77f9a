"""A ledger as a data source of Spark: options, ranges of positions, columns, batches and streams.

May import `places`, `data_source` and `filesystems`.
"""

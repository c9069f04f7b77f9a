"""The tables as files: Delta Lake, Parquet with a commit log of its own, Iceberg (append-only).

`protocol` says what each format offers, `formats` which there are; `reader` and `folded` read tables with
Arrow, `source` is the data source ``postroom.table`` of Spark. May import `tables` and what is below it.
"""

from postroom.spark.store.folded import read_folded
from postroom.spark.store.formats import open_store

__all__ = ["open_store", "read_folded"]

"""The ledger as Spark tables: where each message is, how it got there, and the proof that none was lost. And
queues as sources and sinks of Spark, each message once.

This room reads ledgers through `postroom.ledger` and the life cycle through `postroom.model`. It needs the
extra ``postroom[spark]``. Its rooms import each other one way, as pyproject.toml has it; from the ground up:

- `filesystems`: files by path or URI; `session`: a local Spark session
- `places`: where a ledger is read; `data_source`: what all data sources of Spark share
- `ledger_source`: the data source ``postroom`` (found by Spark through the package ``pyspark_postroom``)
- `tables`: what each table is and how its rows merge; `broker`: a driver's connection to the broker
- `store`: tables as files (Delta, Parquet, Iceberg), and the data source ``postroom.table``; `messages`: what
  is in queues as rows
- `pipeline`: from ledgers to tables, batch by batch; `export`: sealed files elsewhere; `tap`: queues read
  beside their consumers
- `audit`: that no message was lost or made twice; `consume`: queues consumed; `sink`: rows into queues
- `report`: one HTML page with pictures, and what was on a queue; `jobs`: triage, removal of duplicates,
  backfill; `message_source`: the data source ``postroom.messages``, which is tap, consume and sink
"""

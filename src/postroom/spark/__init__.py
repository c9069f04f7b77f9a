"""The ledger as Spark tables: where each message is, how it got there, and the proof that none was lost. And
queues as sources and sinks of Spark, each message once.

This room reads ledgers through `postroom.ledger` and the life cycle through `postroom.model`. It needs the
extra ``postroom[spark]``.

- `places`, `reading`, `positions`: where a ledger is read, in ranges of positions; `source`, `stream`,
  `ranges`, `options`: the data source ``postroom`` (found by Spark through the package ``pyspark_postroom``);
  `columns`: its columns
- `messages`: what is in queues as rows, and the data source ``postroom.messages`` (found through
  ``pyspark_postroom_messages``); `consume`: queues consumed; `sink`: rows into queues; `jobs`: triage,
  removal of duplicates, backfill. `offset_log`: what a checkpoint says; `broker_link`: a driver's connection
- `tables`: what each table is and how its rows merge; `store`: tables as files (Delta, Parquet, Iceberg);
  `pipeline`: from ledgers to tables, batch by batch
- `audit`: that no message was lost or made twice; `relation`: the life cycle to hold their events against
- `report`: one HTML page with pictures; `queue_state`: what was on a queue. Both read tables without Spark
- `session`: a local Spark session
"""

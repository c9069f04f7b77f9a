"""The ledger as Spark tables: where each message is, how it got there, and the proof that none was lost.

This room reads the ledger's files through `postroom.ledger` and the life cycle through `postroom.model`; it
never talks to a broker. It needs the extra ``postroom[spark]``.

- `source`: the data source ``postroom`` (found by Spark through the package ``pyspark_postroom``), `columns`
- `tables`: entries and sums over them; `audit`: conservation and violations; `relation`: the life cycle to
  hold them against. Pure functions from DataFrame to DataFrame
- `report`: one HTML page with pictures
- `job`: all of it in one run, ``python -m postroom.spark.job``; `session`: a local Spark session
"""

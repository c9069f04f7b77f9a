"""The pipeline: tables of one or more ledgers, kept up to date by Structured Streaming.

Spark plans ranges, schedules and tries again; the rows themselves are read, made and written by the tasks in
Python with Arrow, and never cross the JVM.

- `run`: the streaming query; `tasks`: what executors run; `slice_files`: one slice into files of every table
- `pipeline`, `pipeline_table`, `batches`: the driver's side: where each table is, one commit each a batch
- `checkpoint_bootstrap`, `derived`, `open_rows`, `upkeep`: histories that begin late, tables made of tables,
  what goes on between batches
- `views`: the tables as views of a session; `operations`: what `postroom pipeline` does; `lock`, `settings`

May import `store` and what is below it.
"""

"""Queues consumed by Spark, exactly once: the source ``postroom.messages`` with ``mode=consume``.

The broker assigns messages to a *Spark subscription*, by events of its ledger; a batch is a range of
positions, and its rows are the assignments in it. What proves that its rows are safe is stated by the option
``confirm``, and only then is anything taken from the queue.

- `reader`: what the source gives Spark in this mode; `options`: its options
- `foreach_batch`: for ``confirm=call``, and rows and position into a Delta table in one commit
- `planner`: which range comes next and what is confirmed; `subscription`: the broker's part, asked

May import `tap`, `store` and what is below them; not `sink`.
"""

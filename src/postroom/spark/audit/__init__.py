"""The audit: a proof from the ledger that no message was lost or made twice, or the rows that say where it
fails.

- `result`: what was found, as plain values (no Spark); `rules`: every rule and verdict by name; `sums`: the
  arithmetic of conservation (no Spark)
- `ledgers`: what of each ledger is audited (no Spark); `subject`: all of it together
- `reading`: the events of ledgers; `walk`: each entry's events in their order, walked once, which gives all
  that follows its rows: `sequences`, `families`, `transactions`, `order`, `duplicates`, `counts`, `crossings`
- `tables`: the same of a pipeline's tables, which are folded anew; `run`: all rules in one; `command` and
  `show`: what ``postroom audit`` does and prints

May import `pipeline`, whose tables it audits, and what is below that; not `consume` or `sink`.
"""

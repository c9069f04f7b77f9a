"""The contents of queues as rows: which events make rows, and messages as typed columns.

`schema` names the columns, `rows` finds the events that make rows, `decode` makes columns of encoded
messages, `encode` messages of columns. `tap`, `consume` and `sink` stand on them. May import `ledger_source`
and what is below it.
"""

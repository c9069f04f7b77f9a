"""The contents of queues as rows: which events make rows, and messages as typed columns.

`schema` names the columns, `rows` finds the events that make rows, `decode` makes columns of encoded
messages, `source` and `stream` give them to Spark. The sink (`postroom.spark.sink`) and the mode *consume*
(`postroom.spark.consume`) stand on the same columns.
"""

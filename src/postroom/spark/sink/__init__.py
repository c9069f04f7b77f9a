"""Rows into queues: the writers behind ``writeStream`` and ``write`` of the format ``postroom.messages``.

One micro-batch, or one batch write, is one transaction of one broker. Each task attempt sends in sink
branches of its own, seals them and tells the driver their names; the driver's commit names the winners, and
the broker decides by one record. What the broker has recorded says what is done: Spark's checkpoint and its
batch ids never do. What the words mean, and what happens when something fails: docs/reference/spark-sink.md.

May import `messages`, `broker` and what is below them; not `consume`.
"""

"""One ledger in several folders: its blocks in a replicated log, which decides what is durable.

The *log* is a stream of an engine that replicates (`log` is the port, `nats_log` and `kafka_log` are the
implementations on NATS JetStream and on Apache Kafka). Its entries (`entries`) are claims and the bytes of
the journal, in order. One *member* is active: its ledger writes through `writer`, and a block is durable when
the engine has acknowledged it. The others follow (`follower`): they write the same bytes into their own
folders and keep those sealed and checkpointed. `order` decides which entries count; `member` leads from
following through a claim to being active. Nothing below knows of it: the ledger has a writer and a folder as
always. Imports nothing above `ledger`.
"""

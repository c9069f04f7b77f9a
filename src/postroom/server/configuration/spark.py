"""The table ``[spark]`` of the configuration: what Spark jobs that read and write queues may use."""

from typing import Annotated

from msgspec import Meta, Struct

from postroom.server.configuration.values import Positive


class SparkConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of Spark sinks and Spark subscriptions."""

    max_sinks: Positive = 10_000
    """Sinks (apps) that are known; one more is refused."""
    max_sink_branches: Positive = 10_000
    """Undecided branches of all sinks; one more can't begin."""
    max_sink_branch_messages: Annotated[int, Meta(ge=1, le=1_000_000)] = 100_000
    """In one branch; a message to a topic counts once for each subscription. The next is refused."""
    max_sink_messages: Annotated[int, Meta(ge=1, le=10_000_000)] = 1_000_000
    """In all undecided branches, 300 bytes of memory each; the next is refused."""
    max_sink_bytes: Positive = 16 << 30
    """Of their bodies, which lie in the ledger."""
    sink_branch_lease_ms: Positive = 86_400_000
    """A branch that is undecided for so long, since it began or was sealed, is rolled back, with an alarm."""
    sink_batches_remembered: Annotated[int, Meta(ge=1, le=1000)] = 16
    """Decided batches of each sink whose digests are known."""
    max_spark_subscriptions: Positive = 1000
    max_spark_window: Annotated[int, Meta(ge=1, le=10_000_000)] = 1_000_000
    """Messages that one Spark subscription may hold."""

"""What the queue manager knows of a message: the few fields that its index and its rules need."""

from typing import Final, final

from mypy_extensions import i64

DEFAULT_PRIORITY: Final = 4
"""AMQP 1.0 part 3, section 3.2.1."""


class RecordedProperties:
    """The properties of a message that the ledger has in its arrival.

    Ids are the bytes of the AMQP value without its constructor (a ulong always as 8 bytes, big-endian), so
    that equal ids have equal bytes; their ``…_type`` is an IdType.
    """

    __slots__ = (
        "correlation_id",
        "correlation_id_type",
        "creation_us",
        "group_id",
        "group_sequence",
        "message_id",
        "message_id_type",
        "unique_id",
    )

    def __init__(self) -> None:
        self.message_id: bytes = b""
        self.message_id_type: i64 = 0  # IdType.NONE
        self.correlation_id: bytes = b""
        self.correlation_id_type: i64 = 0  # IdType.NONE
        self.unique_id: bytes = b""  # MQe's, as `ids.pack_unique_id` packs it; b"" none
        self.group_id: bytes = b""  # UTF-8
        self.group_sequence: i64 = 0
        self.creation_us: i64 = 0  # creation-time; 0 unknown


@final
class MessageHead(RecordedProperties):
    """The head of one message, found in one pass over its sections without building them.

    Offsets are from the start of the payload that was scanned; a section that is absent has start = end.
    """

    __slots__ = (
        "annotations_end",
        "annotations_start",
        "application_end",
        "application_start",
        "bare_offset",
        "body_start",
        "dead_letter_eligible",
        "delivery_count",
        "delivery_delay_ms",
        "delivery_time_ms",
        "durable",
        "expiry_us",
        "first_acquirer",
        "priority",
        "properties_end",
        "properties_expiry_us",
        "properties_start",
        "report",
        "ttl_ms",
    )

    def __init__(self) -> None:
        super().__init__()
        self.durable: bool = False
        self.priority: i64 = DEFAULT_PRIORITY
        self.ttl_ms: i64 = -1  # -1: none
        self.first_acquirer: bool = False
        self.delivery_count: i64 = 0
        self.expiry_us: i64 = 0  # absolute-expiry-time, unless an override is against it; 0 none
        self.properties_expiry_us: i64 = 0  # absolute-expiry-time, as it stands in the properties; 0 none
        self.delivery_time_ms: i64 = 0  # x-opt-delivery-time: since 1970; 0 none
        self.delivery_delay_ms: i64 = 0  # x-opt-delivery-delay: from the arrival on; 0 none
        self.dead_letter_eligible: bool = False  # x-opt-dead-letter-eligible
        self.report: i64 = 0  # report options of IBM MQ (`mq.Report`); 0 none
        self.bare_offset: i64 = 0  # first byte after header and delivery-annotations
        self.annotations_start: i64 = 0  # the message-annotations section, its descriptor included
        self.annotations_end: i64 = 0
        self.properties_start: i64 = 0
        self.properties_end: i64 = 0
        self.application_start: i64 = 0
        self.application_end: i64 = 0
        self.body_start: i64 = 0  # first body section

"""The columns of messages: name, type, meaning. Needs no Spark but for `messages_struct`."""

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from postroom.spark.ledger_source.columns import TIMESTAMP as TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TYPED: Final = pa.struct([pa.field("type", pa.string()), pa.field("value", pa.string())])
"""A value with its AMQP type: the type's name in lower case, and the value as text (`values`)."""
TYPED_MAP: Final = pa.map_(pa.string(), TYPED)

_EVENT: Final = (
    ("position", pa.int64(), "Where in the ledger it became available: dense, from 1, never reused"),
    ("ordinal", pa.int32(), "Which of the position's entries this row is, from 0"),
    ("ledger_id", pa.string(), "The ledger's own id (UUID)"),
    ("queue", pa.string(), "The queue or subscription in which it became available"),
    ("serial", pa.int64(), "The message: position of its arrival record; with the queue, the entry"),
    ("available_time", TIMESTAMP, "When it became available; never goes backwards"),
)
_STATE: Final = (
    ("body_state", pa.string(), "present, dropped, not stored, or withheld: whether there are sections"),
    ("_corrupt", pa.string(), "What is wrong and where, if the message can't be decoded; null elsewhere"),
)
_HEADER: Final = (
    ("durable", pa.bool_(), "Persistence was asked for"),
    ("priority", pa.int32(), "0 to 9"),
    ("ttl_ms", pa.int64(), "From its arrival to its expiry; null: it never expires"),
    ("first_acquirer", pa.bool_(), "False, as it arrived: only a delivery to a consumer has it true"),
    ("delivery_count", pa.int64(), "0, as it arrived; what became of it since is in the events table"),
)
_PROPERTIES: Final = (
    ("message_id", pa.string(), "As text; binary in base64"),
    ("message_id_type", pa.string(), "string, ulong, uuid or binary"),
    ("user_id", pa.binary(), "Who the producer says sends it"),
    ("to", pa.string(), "Where the producer sent it"),
    ("subject", pa.string(), "What it is about; JMSType"),
    ("reply_to", pa.string(), "Where answers go"),
    ("correlation_id", pa.string(), "As text; binary in base64"),
    ("correlation_id_type", pa.string(), "string, ulong, uuid or binary"),
    ("content_type", pa.string(), "MIME type of the body"),
    ("content_encoding", pa.string(), "How the body is packed"),
    ("absolute_expiry_time", TIMESTAMP, "When the producer says that it expires"),
    ("creation_time", TIMESTAMP, "When the producer says that it made it"),
    ("group_id", pa.string(), "The group that it belongs to"),
    ("group_sequence", pa.int64(), "Its number in the group"),
    ("reply_to_group_id", pa.string(), "The group that answers belong to"),
)
_BODY: Final = (
    ("jms_type", pa.string(), "text, bytes, map, stream, object or message: the JMS class it is"),
    ("message_annotations", TYPED_MAP, "Annotations by name, each with its AMQP type"),
    ("application_properties", TYPED_MAP, "Properties by name, each with its AMQP type"),
    ("body_type", pa.string(), "data, string, binary, value, sequence or none"),
    ("body", pa.binary(), "Bytes of data and binary bodies; of value and sequence the encoded sections"),
    ("text", pa.string(), "The text of a string body; of value and sequence JSON"),
    ("footer", pa.binary(), "The footer section, encoded"),
)
SECTIONS: Final = "sections"
_WHOLE: Final = ((SECTIONS, pa.binary(), "The whole message as stored: encoded sections"),)

EVENT_COLUMNS: Final = tuple(name for name, *_ in _EVENT)
"""Told by the event that made the row."""
NEVER_NULL: Final = frozenset(EVENT_COLUMNS) - {"queue"}
"""Every row has a value of these."""
HEADER_COLUMNS: Final = tuple(name for name, *_ in _HEADER)
"""Told by the arrival's record."""
PROPERTY_COLUMNS: Final = tuple(name for name, *_ in _PROPERTIES)

_COLUMNS: Final = (*_EVENT, *_STATE, *_HEADER, *_PROPERTIES, *_BODY)
COMMENTS: Final = {name: comment for name, _, comment in (*_COLUMNS, *_WHOLE)}

MESSAGES_SCHEMA: Final = pa.schema([pa.field(name, kind) for name, kind, _ in _COLUMNS])
"""What a read has unless `.schema(...)` asks for other columns."""
FULL_SCHEMA: Final = pa.schema([pa.field(name, kind) for name, kind, _ in (*_COLUMNS, *_WHOLE)])
"""All columns: with `sections`, which is there only if asked for."""


def messages_struct(schema: pa.Schema = MESSAGES_SCHEMA) -> "StructType":
    """The columns as Spark's type, with a comment on each."""
    from postroom.spark.data_source.schema import struct_of

    return struct_of(((field.name, field.type, COMMENTS[field.name]) for field in schema), NEVER_NULL)

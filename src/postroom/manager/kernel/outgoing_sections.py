"""What everybody is given of a message: its sections as stored, with its own expiry in them."""

from mypy_extensions import i64

from postroom.amqp.errors import DecodeError
from postroom.amqp.message.message_fields import MessageFields
from postroom.amqp.message.rewrite import with_expiry
from postroom.manager.kernel.entry import Entry
from postroom.model import numbers as n


def outgoing_sections(entry: Entry, body: bytes) -> bytes:
    """``body``, the stored sections of ``entry``, as it leaves the queue manager.

    A message that may live longer than its properties say, a dead letter for example, has the entry's expiry
    there, or none: clients give back what has expired by its properties, for ever.
    """
    if entry.flags & n.FLAG_EXPIRY_REPLACED == 0:
        return body
    try:
        return with_expiry(body, entry.expiry_us)
    except DecodeError:
        return body  # a bad message harms no reader


def fields_of(entry: Entry, body: bytes) -> MessageFields:
    """What selectors see of ``entry``."""
    durable = entry.flags & n.FLAG_DURABLE != 0
    sections = outgoing_sections(entry, body)
    return MessageFields(entry.priority, durable, entry.delivery_count, sections, entry.annotations)


def expiry_flag(parent: Entry) -> i64:
    """The flag of an entry that shares the sections of ``parent`` and expires at a time of its own."""
    return n.FLAG_EXPIRY_REPLACED if parent.expiry_us != 0 else parent.flags & n.FLAG_EXPIRY_REPLACED

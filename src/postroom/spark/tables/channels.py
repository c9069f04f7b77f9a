"""Table ``channels``: one row for each message channel, direction and minute."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.spark.tables import arrays
from postroom.spark.tables.arrays import Codes
from postroom.spark.tables.definition import LEDGER_ID, ORDER, TIMESTAMP, Field, Merge, TableDefinition
from postroom.spark.tables.final_rows import is_past_minute
from postroom.spark.tables.range import Range
from postroom.spark.tables.undelivered import reason_columns

SENT: Final = "sent"
RECEIVED: Final = "received"

FIELDS: Final = (
    LEDGER_ID,
    Field("channel", pa.string(), Merge.KEY, "The channel's name"),
    Field("direction", pa.string(), Merge.KEY, "sent or received, seen from this queue manager"),
    Field("minute", TIMESTAMP, Merge.KEY, "The minute"),
    Field("messages", pa.int64(), Merge.SUM, "Messages confirmed as sent, or received"),
    Field("bytes", pa.int64(), Merge.SUM, "Size of the stored sections of those received; 0 of those sent"),
    Field("batches", pa.int64(), Merge.SUM, "Batches confirmed as sent"),
    Field("fast", pa.int64(), Merge.SUM, "Messages among them that travelled outside of batches"),
    Field("taken", pa.int64(), Merge.SUM, "Messages taken to be sent, fast ones too"),
    Field("backed_out", pa.int64(), Merge.SUM, "Messages that came back, unsent"),
    Field("discarded", pa.int64(), Merge.SUM, "Messages received and discarded"),
    Field("dropped", pa.int64(), Merge.SUM, "Fast messages received that had nowhere to go"),
    Field("returned", pa.int64(), Merge.SUM, "Messages received and returned to their senders"),
    Field("last_sequence", pa.int64(), Merge.LATEST, "Number of the last message received in a batch"),
    Field("last_luwid", pa.string(), Merge.LATEST, "The last batch sent from"),
    *ORDER,
)


def units(events: Range) -> pa.Table:
    """A row for each event that tells of a channel."""
    mine = events.take(np.flatnonzero(_concerns_channel(events)))
    came, gone = mine.is_arrival, mine.codes("event").among("forward")
    ended = mine.codes("event").among("discard", "return_to_sender") & ~came
    reasons = reason_columns(mine, ended)
    dropped = arrays.numbers(reasons["dropped"]).astype(bool) & ended
    first = mine.numbers("ordinal") == 0
    message = (came & first) | (gone & ~came)
    batch = mine.codes("record").among("decision") & gone
    alone = (came & first & ~arrays.valid(mine.column("sequence", pa.int64()))) | (gone & ~batch & ~came)
    counted = {
        "messages": message,
        "batches": batch & first,
        "fast": alone,
        "taken": mine.codes("event").among("acquire"),
        "backed_out": mine.was_taken & ~mine.is_end & ~mine.is_taken,
        "discarded": ended & mine.codes("event").among("discard") & ~dropped,
        "dropped": dropped,
        "returned": ended & mine.codes("event").among("return_to_sender"),
    }
    columns: dict[str, Any] = {name: pa.array(which.astype(np.int64)) for name, which in counted.items()}
    columns |= {
        "ledger_id": mine.codes("ledger_id").array(),
        "channel": _channel(mine, reasons["channel"], ended),
        "direction": Codes(np.where(came | ended, 0, 1).astype(np.int32), [RECEIVED, SENT]).array(),
        "minute": arrays.of_kind(mine.minutes_us, TIMESTAMP),
        "bytes": pa.array(mine.numbers("body_bytes") * (came & first)),
        "last_sequence": mine.column("sequence", pa.int64()),
        "last_luwid": mine.codes("luwid").array(gone),
    }
    return pa.table(columns | mine.order())


def _concerns_channel(events: Range) -> Array:
    """Which rows name a channel, or tell in their reason what became of a message that one brought."""
    named = events.codes("channel").numbers >= 0
    if len(events.codes("reason").texts):
        ended = events.codes("event").among("discard", "return_to_sender") & ~events.is_arrival
        named = named | (ended & arrays.valid(reason_columns(events, ended)["channel"]))
    return named & ~events.is_carried


def _channel(events: Range, from_reasons: pa.Array, ended: Array) -> pa.Array:
    """Who brought a message that was discarded or returned is told in the reason."""
    named, brought = events.codes("channel"), arrays.codes(from_reasons)
    texts = sorted({*named.texts, *brought.texts})
    place = {text: number for number, text in enumerate(texts)}

    def numbers(codes: Codes) -> Array:
        table = np.array([*(place[text] for text in codes.texts), -1], np.int32)
        found: Array = table[codes.numbers]
        return found

    return Codes(np.where(ended, numbers(brought), numbers(named)), texts).array()


CHANNELS: Final = TableDefinition(
    "channels",
    "What each message channel sent and received, minute by minute",
    1,
    FIELDS,
    units,
    is_past_minute,
    "minute",
)

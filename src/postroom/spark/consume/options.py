"""The options of ``mode=consume``, read and checked. Needs no Spark."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from postroom.spark.broker.options import Broker, read_broker
from postroom.spark.data_source.errors import SourceOptionError
from postroom.spark.data_source.option_names import CONSUME as CONSUME_NAMES
from postroom.spark.data_source.option_reader import OptionReader
from postroom.spark.tap.options import TapOptions, tap_options

FAIL: Final = "fail"
CONFIRMED: Final = "confirmed"

BROKER_TIMEOUT_S: Final = 60
"""How long the broker may be away, by default, before the query fails."""

POLL_MS: Final = 100
"""The least time between two questions to the broker while nothing comes, by default."""

_TABLE: Final = "table:"
_APP_MARK: Final = "#"

NOT_WITH_CONSUME: Final = (
    *("queues", "startingPosition", "fromPosition", "toPosition", "fromTime", "toTime"),
    *("maxRows", "maxBytes", "carried", "pushdown", "failOnDataLoss", "onMissingLedger", "lease"),
)
"""What is read is the subscription's: its queue, its window, its position. What is missing may not be passed
over: it would be confirmed."""


class Proof(Enum):
    """What counts as proof that rows are safe; the values are written in offsets."""

    TABLE = "table"
    CALL = "call"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class Confirm:
    """The option ``confirm``: the proof, and of a table which one and under which name."""

    proof: Proof
    table_uri: str = ""
    app: str = ""


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """The options, checked."""

    tap: TapOptions
    """Where the ledger is read, and how."""
    broker: Broker
    subscription: str
    confirm: Confirm | None
    """None: only of a batch read, which confirms nothing."""
    takes_over: bool
    """Whether a new checkpoint takes the place of one that is registered."""
    broker_timeout_s: int
    poll_ms: int


def read_consume_options(options: Mapping[str, str], is_stream: bool = True) -> ConsumeOptions:
    """Options as Spark gives them → checked. Raises ``SourceOptionError``."""
    reader = OptionReader(options, SourceOptionError)
    reader.refuse(
        NOT_WITH_CONSUME,
        "has no meaning with mode=consume: what is read, and how much at once, is the subscription's (queue,"
        " window, window_bytes)",
    )
    return ConsumeOptions(
        tap_options(options, CONSUME_NAMES),
        read_broker(reader),
        reader.needed(
            "subscription", "it names the Spark subscription: postroom spark-subscription create"
        ).strip(),
        _confirm(reader) if is_stream or reader.given("confirm") is not None else None,
        reader.choice("onNewCheckpoint", (FAIL, CONFIRMED)) == CONFIRMED,
        reader.number("brokerTimeoutS") or BROKER_TIMEOUT_S,
        reader.number("pollMs") or POLL_MS,
    )


def _confirm(reader: OptionReader) -> Confirm:
    what = "it names what proves that rows are safe: table:URI#APP, call or spark"
    text = reader.needed("confirm", what).strip()
    if text.lower() in (Proof.CALL.value, Proof.SPARK.value):
        return Confirm(Proof(text.lower()))
    if text.lower().startswith(_TABLE):
        uri, mark, app = text[len(_TABLE) :].rpartition(_APP_MARK)
        if mark and uri and app:
            return Confirm(Proof.TABLE, uri, app)
    raise SourceOptionError(f'option "confirm" is table:URI#APP, call or spark, not {text!r}')

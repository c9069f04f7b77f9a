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
    named = {name.lower(): text for name, text in options.items()}
    for name in NOT_WITH_CONSUME:
        if name.lower() in named:
            raise SourceOptionError(
                f'option "{name}" has no meaning with mode=consume: what is read, and how much at once, is'
                " the subscription's (queue, window, window_bytes)"
            )
    return ConsumeOptions(
        tap_options(options, CONSUME_NAMES),
        read_broker(OptionReader(named, SourceOptionError)),
        _required(named, "subscription", "the Spark subscription: postroom spark-subscription create"),
        _confirm(named) if is_stream or "confirm" in named else None,
        _takes_over(named),
        _number(named, "brokerTimeoutS", BROKER_TIMEOUT_S),
        _number(named, "pollMs", POLL_MS),
    )


def _required(named: Mapping[str, str], name: str, what: str) -> str:
    text = named.get(name.lower(), "").strip()
    if not text:
        raise SourceOptionError(f'option "{name}" is missing: it names {what}')
    return text


def _confirm(named: Mapping[str, str]) -> Confirm:
    text = _required(named, "confirm", "what proves that rows are safe: table:URI#APP, call or spark")
    if text.lower() in (Proof.CALL.value, Proof.SPARK.value):
        return Confirm(Proof(text.lower()))
    if text.lower().startswith(_TABLE):
        uri, mark, app = text[len(_TABLE) :].rpartition(_APP_MARK)
        if mark and uri and app:
            return Confirm(Proof.TABLE, uri, app)
    raise SourceOptionError(f'option "confirm" is table:URI#APP, call or spark, not {text!r}')


def _takes_over(named: Mapping[str, str]) -> bool:
    text = named.get("onnewcheckpoint", FAIL).lower()
    if text not in (FAIL, CONFIRMED):
        raise SourceOptionError(f'option "onNewCheckpoint" is {FAIL} or {CONFIRMED}, not {text!r}')
    return text == CONFIRMED


def _number(named: Mapping[str, str], name: str, default: int) -> int:
    text = named.get(name.lower(), str(default))
    if not text.isdecimal() or int(text) < 1:
        raise SourceOptionError(f'option "{name}" must be a whole number from 1, not {text!r}')
    return int(text)

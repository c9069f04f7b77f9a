"""The options of ``postroom.messages``, read and checked. Needs no Spark."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from postroom.spark.broker.options import read_broker
from postroom.spark.data_source.errors import SourceOptionError
from postroom.spark.data_source.option_names import OF_CONSUME
from postroom.spark.data_source.option_names import TAP as TAP_NAMES
from postroom.spark.data_source.option_reader import OptionReader
from postroom.spark.ledger_source.options import SourceOptions, read_options
from postroom.spark.tap.lease import LeaseOptions

TAP: Final = "tap"
CONSUME: Final = "consume"
MODES: Final = (TAP, CONSUME)


@dataclass(frozen=True, slots=True)
class TapOptions:
    """How to read beside the consumers: what of which ledgers, and what keeps it there meanwhile."""

    source: SourceOptions
    check_bodies: bool
    lease: LeaseOptions | None = None
    """What a stream keeps; None: only what retention does."""


def read_tap_options(options: Mapping[str, str]) -> TapOptions:
    """Options as Spark gives them → checked. Raises ``SourceOptionError``."""
    OptionReader(options, SourceOptionError).refuse(OF_CONSUME, f"is of mode=consume, and mode is {TAP}")
    return tap_options(options, TAP_NAMES)


def tap_options(options: Mapping[str, str], known: Iterable[str]) -> TapOptions:
    """The same; `known`: the names of the mode's options."""
    reader = OptionReader(options, SourceOptionError)
    check_bodies = reader.flag("checkBodies", True)
    source = read_options(options, known, "the source postroom.messages")
    return TapOptions(source, check_bodies, _lease(reader, source))


def _lease(reader: OptionReader, source: SourceOptions) -> LeaseOptions | None:
    name = reader.text("lease")
    if not name:
        reader.refuse(("leaseDurationS", "leaseBytes"), 'is of a lease: name one with the option "lease"')
        return None
    broker = read_broker(reader)
    if len(source.uris) > 1:
        raise SourceOptionError("a lease is of one ledger: read several with a query each")
    if source.queues is None:
        raise SourceOptionError('option "queues" is missing: a lease says whose messages are kept')
    duration_s, max_bytes = reader.number("leaseDurationS"), reader.number("leaseBytes")
    return LeaseOptions(name, broker, tuple(sorted(source.queues)), duration_s, max_bytes)


def mode_of(options: Mapping[str, str]) -> str:
    """Which way messages are read. Raises ``SourceOptionError``."""
    return OptionReader(options, SourceOptionError).choice("mode", MODES)

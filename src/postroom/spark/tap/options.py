"""The options of ``postroom.messages``, read and checked. Needs no Spark."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from postroom.spark.broker.options import read_broker
from postroom.spark.data_source.errors import SourceOptionError
from postroom.spark.data_source.option_names import OF_CONSUME
from postroom.spark.data_source.option_names import TAP as TAP_NAMES
from postroom.spark.data_source.option_reader import OptionReader
from postroom.spark.ledger_source.options import SourceOptions, number, read_options
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
    for name in OF_CONSUME:
        if name.lower() in {one.lower() for one in options}:
            raise SourceOptionError(f'option "{name}" is of mode=consume, and mode is {TAP}')
    return tap_options(options, TAP_NAMES)


def tap_options(options: Mapping[str, str], known: Iterable[str]) -> TapOptions:
    """The same; `known`: the names of the mode's options."""
    named = {name.lower(): text for name, text in options.items()}
    check = named.get("checkbodies", "true").lower()
    if check not in ("true", "false"):
        raise SourceOptionError(f'option "checkBodies" is true or false, not {check!r}')
    source = read_options(options, known, "the source postroom.messages")
    return TapOptions(source, check == "true", _lease(named, source))


def _lease(named: Mapping[str, str], source: SourceOptions) -> LeaseOptions | None:
    name = named.get("lease", "")
    if not name:
        for other in ("leaseDurationS", "leaseBytes"):
            if other.lower() in named:
                raise SourceOptionError(f'option "{other}" is of a lease: name one with the option "lease"')
        return None
    broker = read_broker(OptionReader(named, SourceOptionError))
    if len(source.uris) > 1:
        raise SourceOptionError("a lease is of one ledger: read several with a query each")
    if source.queues is None:
        raise SourceOptionError('option "queues" is missing: a lease says whose messages are kept')
    duration_s, max_bytes = number(named, "leaseDurationS"), number(named, "leaseBytes")
    return LeaseOptions(name, broker, tuple(sorted(source.queues)), duration_s, max_bytes)


def mode_of(options: Mapping[str, str]) -> str:
    """Which way messages are read. Raises ``SourceOptionError``."""
    named = {name.lower(): text for name, text in options.items()}
    mode = named.get("mode", TAP).lower()
    if mode not in MODES:
        raise SourceOptionError(f'option "mode" is {" or ".join(MODES)}, not {mode!r}')
    return mode

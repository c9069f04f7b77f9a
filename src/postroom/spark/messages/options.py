"""The options of ``postroom.messages``, read and checked. Needs no Spark."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from postroom.spark.options import SourceOptionError, SourceOptions, read_options

TAP: Final = "tap"
CONSUME: Final = "consume"
MODES: Final = (TAP, CONSUME)


@dataclass(frozen=True, slots=True)
class TapOptions:
    """How to read beside the consumers: what of which ledgers, and what keeps it there meanwhile."""

    source: SourceOptions
    check_bodies: bool


def read_tap_options(options: Mapping[str, str]) -> TapOptions:
    """Options as Spark gives them → checked. Raises ``SourceOptionError``."""
    named = {name.lower(): text for name, text in options.items()}
    check = named.get("checkbodies", "true").lower()
    if check not in ("true", "false"):
        raise SourceOptionError(f'option "checkBodies" is true or false, not {check!r}')
    return TapOptions(read_options(options), check == "true")


def mode_of(options: Mapping[str, str]) -> str:
    """Which way messages are read. Raises ``SourceOptionError``."""
    named = {name.lower(): text for name, text in options.items()}
    mode = named.get("mode", TAP).lower()
    if mode not in MODES:
        raise SourceOptionError(f'option "mode" is {" or ".join(MODES)}, not {mode!r}')
    return mode

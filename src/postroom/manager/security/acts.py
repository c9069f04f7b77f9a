"""The record of acts: who has changed something, from where, and what was answered; also what was refused."""

import json
from dataclasses import asdict, dataclass
from typing import Final

from postroom.ledger.format.records import RecordType
from postroom.manager.kernel.core import Core

_ACT: Final = int(RecordType.ADMINISTRATIVE_ACT)
_TEXTS: Final = (*("user", "remote", "container", "operation", "type", "name", "description", "arguments"),)
_USUAL: Final[dict[str, object]] = {"count": 1, **dict.fromkeys(_TEXTS, "")}
MAX_CHARS: Final = 512
"""Of each text of an act; what is longer is cut off."""
MAX_ARGUMENTS_CHARS: Final = 4096
"""Of what was asked for, as JSON."""

SIGN_IN: Final = "SIGN-IN"
ATTACH: Final = "ATTACH"
TRANSFER: Final = "TRANSFER"
RELOAD: Final = "RELOAD"
"""Operations of acts that are no request to the management node."""


@dataclass(frozen=True)
class Act:
    """One act, or several alike that were refused."""

    user: str
    """Who; "" the one who runs the broker."""
    remote: str
    """From where: address and port."""
    container: str
    operation: str
    """What was asked for, as management requests name it, or SIGN-IN, ATTACH, TRANSFER, RELOAD."""
    type: str
    """Of the thing: that of management requests, or "destination"."""
    name: str
    """Of the thing."""
    status: int
    """The answer as of management requests; 401 is a failed sign-in, 403 a right that is missing."""
    description: str = ""
    """The answer in words."""
    arguments: str = ""
    """What was asked for, as JSON, without anything secret."""
    count: int = 1
    """Of acts alike that were refused."""


def record_act(core: Core, act: Act) -> None:
    """Write it, into the block of what it has changed."""
    fields = {name: _bounded(name, value) for name, value in asdict(act).items() if value != _USUAL.get(name)}
    detail = json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")
    core.ledger.record(_ACT, core.ledger.next_position, 0, 0, 0, 0, detail)


def _bounded(name: str, value: object) -> object:
    most = MAX_ARGUMENTS_CHARS if name == "arguments" else MAX_CHARS
    return value[:most] if isinstance(value, str) else value

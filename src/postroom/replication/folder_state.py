"""How far a folder follows its log: a file of its own beside the ledger's, `replication`.

It is a floor: what it says was applied is durable in the folder. What came since is read from the log again
and written again, the same bytes to the same places.
"""

from typing import Final

import msgspec

from postroom.ledger.storage.disk import Disk
from postroom.ledger.storage.events_image import write_durably
from postroom.replication.entries import NO_CLAIM
from postroom.replication.errors import MemberRefused

STATE_NAME: Final = "replication"
VERIFIERS_NAME: Final = "verifiers.json"
"""What is kept of passwords."""
BESIDE: Final = (STATE_NAME, VERIFIERS_NAME)
"""Files beside the ledger that go with it to another member."""


class FolderState(msgspec.Struct, frozen=True):
    """Of a folder that has followed a log."""

    log: str
    """The log's identity."""
    sequence: int = 0
    """Entries up to this one are durable in the folder."""
    claim: str = NO_CLAIM.hex()
    """The claim in force there."""


def read_state(disk: Disk) -> FolderState | None:
    """None: the folder has never followed a log. Raises `MemberRefused` for a damaged file."""
    try:
        file = disk.open(STATE_NAME)
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(file.read_at(0, file.size_bytes()), type=FolderState)
    except msgspec.MsgspecError as error:
        raise MemberRefused(
            f"{disk.describe(STATE_NAME)}: damaged ({error}); move this member's folder away and start it"
            " with a copy of another member's"
        ) from error


def write_state(disk: Disk, state: FolderState) -> None:
    """Durably, in the place of the one before."""
    write_durably(disk, STATE_NAME, [msgspec.json.encode(state)])

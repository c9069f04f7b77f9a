"""Which entries of the log count: pure, the same for every member and every engine.

An engine with conditional appends refuses what doesn't follow on its last entry. One without takes it, and
readers must pass it over. So both are read by one rule: an entry counts if its writer knew the entry before
it, and if it stands under the claim in force; a claim needs the former alone.
"""

from postroom.replication.entries import NO_CLAIM, Entry, Kind
from postroom.replication.errors import COPY_ADVICE, CopyNeeded


class LogOrder:
    """The log as far as it was read."""

    def __init__(self, sequence: int = 0, claim: bytes = NO_CLAIM) -> None:
        self.sequence = sequence
        """Of the last entry that was read, whether it counts or not."""
        self.claim = claim
        """The claim in force."""

    def take(self, sequence: int, entry: Entry) -> bool:
        """Read the next entry; whether it counts.

        Raises `CopyNeeded` if entries between are gone: what was in them isn't known, a claim perhaps.
        """
        if sequence != self.sequence + 1:
            what = f"the log was read to entry {self.sequence}, and goes on with entry {sequence}"
            raise CopyNeeded(f"{what}: {COPY_ADVICE}")
        knew = entry.after == self.sequence
        self.sequence = sequence
        if not knew or (entry.kind is not Kind.CLAIM and entry.claim != self.claim):
            return False
        self.claim = entry.claim
        return True

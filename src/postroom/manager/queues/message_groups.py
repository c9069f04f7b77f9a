"""Message groups: the messages of one JMSXGroupID go to one consumer, as long as it stays.

Groups are told apart by the bucket that their name hashes into, so that what is remembered is bounded by the
queue's ``group_buckets``; groups that share a bucket share a consumer. Consumers with different selectors
have owners of their own for a bucket: a message that its group's owner doesn't select would stay for ever.
"""

from typing import TYPE_CHECKING, Final, final

from isal.isal_zlib import crc32
from mypy_extensions import i64

from postroom.amqp.message.message_fields import MessageFields
from postroom.manager.kernel.entry import Entry

if TYPE_CHECKING:
    from postroom.manager.kernel.consumer import Consumer

GROUP_WINDOW: Final = 256
"""Entries of other consumers' groups that a consumer may be served past; behind so many it waits."""

FIRST_IN_GROUP: Final = "x-opt-group-first"
"""Message annotation (true) of the first message of a group that goes to a consumer."""

NO_GROUP: Final = -1
GROUP_UNKNOWN: Final = -2
_HASH: Final = 0xFFFF_FFFF
_CLOSES: Final = 1 << 32
"""Beside the hash: the message closes its group."""


@final
class Passed:
    """How far into a band there is nothing for those who can take something."""

    def __init__(self) -> None:
        self.place: i64 = -1
        self.ordinal: i64 = 0
        self.count: i64 = 0
        """Entries of others on the way there."""
        self.changes: i64 = 0
        """Of the band, when that was so."""
        self.releases: i64 = 0
        """Of the groups, when that was so."""


@final
class Groups:
    """Who has which bucket, on one queue."""

    def __init__(self, buckets: i64) -> None:
        self.buckets: i64 = buckets
        """Into so many groups are spread."""
        self._owners: dict[int, Consumer] = {}
        """By `_key`."""
        self._passed: dict[int, Passed] = {}
        """By priority."""
        self._releases: i64 = 0

    def released(self) -> None:
        """What had to wait may go: a consumer can take something again, or has left its groups."""
        self._releases += 1

    def passed(self, priority: i64, changes: i64) -> Passed:
        """How far the band of that priority, which has changed so often, need not be gone through again."""
        passed = self._passed.get(int(priority))
        if passed is None or passed.changes != changes or passed.releases != self._releases:
            passed = self._passed[int(priority)] = Passed()
            passed.releases = self._releases
        return passed

    def bucket_of(self, entry: Entry, body: bytes) -> i64:
        """The bucket of an entry's group; NO_GROUP without one."""
        if entry.group == GROUP_UNKNOWN:
            entry.group = _group_of(body)
        return NO_GROUP if entry.group == NO_GROUP else (entry.group & _HASH) % self.buckets

    def may_go(self, consumer: "Consumer", bucket: i64) -> bool:
        """Whether the bucket is free, or the consumer's."""
        if bucket == NO_GROUP:
            return True
        owner = self._owners.get(_key(consumer, bucket))
        return owner is None or owner is consumer

    def owner_of(self, bucket: i64) -> "Consumer | None":
        """Who has the bucket among those without a selector."""
        return None if bucket == NO_GROUP else self._owners.get(int(bucket))

    def goes(self, consumer: "Consumer", entry: Entry, body: bytes) -> bool:
        """``entry`` goes to ``consumer``, who has its group from now on; whether it hadn't before.

        A message with a negative sequence closes its group: the next may go to anybody.
        """
        bucket = self.bucket_of(entry, body)
        if bucket == NO_GROUP:
            return False
        key = _key(consumer, bucket)
        owner = self._owners.get(key)
        if entry.group & _CLOSES != 0:
            self._owners.pop(key, None)
        elif owner is not consumer:
            self._owners[key] = consumer
        return owner is None

    def leave(self, consumer: "Consumer") -> None:
        """The consumer has gone: its groups are free."""
        mine = [key for key, owner in self._owners.items() if owner is consumer]
        for key in mine:
            del self._owners[key]
        self.released()


def _key(consumer: "Consumer", bucket: i64) -> int:
    """Of a bucket among those with the selector of ``consumer``; the bucket itself for those without one."""
    return int(consumer.selector_cursor_id << 32 | bucket)


def _group_of(sections: bytes) -> i64:
    """What an entry remembers of its message's group: the hash of its name, whether it closes it."""
    name, sequence = MessageFields(0, False, 0, sections, None).group()
    if not name:
        return NO_GROUP
    hashed: i64 = crc32(name)
    return hashed | _CLOSES if sequence < 0 else hashed

"""Which names queues, topics and subscriptions may have."""

from typing import Final

from postroom.manager.kernel.errors import NameNotAllowed

MAX_NAME_BYTES: Final = 255
RESERVED_PREFIX: Final = "$"
"""Names that begin so belong to the broker ("$management"); clients can't create them."""
DEAD_LETTERS: Final = "postroom.dead"
"""The queue manager's dead-letter queue, unless it is told another one or none."""
UNDELIVERED: Final = "$undelivered"
"""The queue on which stands, for the ledger, what ends as it comes (`undeliverable.discard`); nobody can send
there or receive."""

SUBSCRIPTION_MARK: Final = "::"
"""Between the topic and the rest of a subscription's name; no queue or topic has it in its own."""
MAX_SUBSCRIPTION_NAME_BYTES: Final = 1024
LEVEL_MARK: Final = "."
ONE_LEVEL: Final = "*"
REST: Final = "#"
"""Topic names have levels; a pattern has these for one level and, as its last, for all that follow."""


def check_name(name: str) -> None:
    """Raise NameNotAllowed unless ``name`` can be a queue's."""
    if not name:
        raise NameNotAllowed("a queue must have a name")
    _check_text(name, MAX_NAME_BYTES)
    if SUBSCRIPTION_MARK in name:
        raise NameNotAllowed(
            f"name {name!r}: {SUBSCRIPTION_MARK!r} is for subscriptions, made by subscribing"
        )


def too_long(name: str) -> bool:
    """Whether a name can't be any queue's or queue manager's."""
    return len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES


def _check_text(name: str, max_bytes: int) -> None:
    size = len(name.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        raise NameNotAllowed(f"name of {size} bytes is longer than {max_bytes}: {name[:40]!r}…")
    if not name.isprintable():
        raise NameNotAllowed(f"name {name!r} has characters that can't be printed")


def check_topic_name(name: str) -> None:
    """Raise NameNotAllowed unless ``name`` can be a topic's: a queue's name without wildcards."""
    check_name(name)
    if is_pattern(name):
        raise NameNotAllowed(
            f"{name!r} is a pattern of topics ({ONE_LEVEL!r} and {REST!r} are wildcards): it can be "
            "subscribed to, but neither created nor published to"
        )


def check_pattern(pattern: str) -> None:
    """Raise NameNotAllowed unless ``pattern`` names a topic, or topics."""
    check_name(pattern)
    if REST in pattern.split(LEVEL_MARK)[:-1]:
        raise NameNotAllowed(
            f"pattern {pattern!r}: {REST!r} stands for all levels that follow: make it the last"
        )


def is_pattern(name: str) -> bool:
    """Whether a topic name has wildcards: it stands for many topics."""
    levels = name.split(LEVEL_MARK)
    return ONE_LEVEL in levels or REST in levels


def check_subscription_name(name: str) -> None:
    """Raise NameNotAllowed unless ``name`` is TOPIC::NAME or TOPIC::CLIENT/NAME."""
    topic, mark, rest = name.partition(SUBSCRIPTION_MARK)
    check_pattern(topic)
    if not mark or not rest:
        raise NameNotAllowed(f"{name!r} is not the name of a subscription: TOPIC{SUBSCRIPTION_MARK}NAME")
    _check_text(name, MAX_SUBSCRIPTION_NAME_BYTES)

"""What the random test begins with: bodies, and queues and topics for the queue manager and its reference."""

from dataclasses import replace
from typing import Any

from postroom.amqp.message.sections import Data, Properties
from postroom.amqp.message.sections import Message as Sections
from postroom.manager.kernel.quota_definition import QuotaDefinition
from tests.manager.over_ledger import LedgerWorld
from tests.manager.random_commands.reference import Reference
from tests.manager.random_commands.reference_consumers import Takers
from tests.manager.random_commands.reference_destination import Place, TopicPlace
from tests.manager.random_commands.reference_quotas import Pool
from tests.manager.world import MS

ROOM = QuotaDefinition("room", messages_maximum=4)
"""Shared by the queue "roomy" and the subscriptions to the topic "tight"."""
TOPIC_SETTINGS: dict[str, dict[str, Any]] = {
    "news": {"redelivery_limit": 0, "dead_letter_queue": "dead"},
    "news.sport": {"redelivery_limit": 0, "dead_letter_queue": "dead"},
    "tight": {"quota": "room"},
    "each": {"max_messages": 2},
}

CLOSES_GROUP = 0xFFFF_FFFF
"""JMSXGroupSeq −1, as AMQP's unsigned group-sequence has it."""


def a_body(number: int, which: int, size: int, id: str, group: str, closes: bool) -> bytes:
    """Stored sections: what selectors, groups and units of order ask for, and a text of its own."""
    properties: dict[str, Any] = {"n": number}
    if number:
        properties["JMS_BEA_UnitOfOrder"] = f"unit {number}"
    message = Sections(application_properties=properties, body=Data([(b"%d" % which).rjust(size, b".")]))
    if id or group:
        message.properties = Properties(message_id=id or None, group_id=group or None)
        message.properties.group_sequence = CLOSES_GROUP if closes else None
    return message.encode()


def define(world: LedgerWorld, delay_ms: int, preemptive: bool) -> Reference:
    """The queues of the test, for both."""
    world.queue("plain")
    strict: dict[str, Any] = {"redelivery_limit": 1, "dead_letter_queue": "dead", "lost_link_counts": True}
    world.queue("strict", redelivery_delay_ms=delay_ms, **strict)
    late: dict[str, Any] = {"priority_override": 7, "ttl_override_ms": 6}
    world.queue("late", expiration_policy="redirect", expiry_queue="spent", **late)
    world.queue("units", unit_of_order=True)
    world.queue("groups", group_buckets=2, redelivery_limit=2, dead_letter_queue="dead")
    world.queue("single", access="exclusive", max_consumers=3)
    quota: dict[str, Any] = {"max_messages": 3, "messages_threshold_high": 2, "messages_threshold_low": 1}
    policy = "preemptive" if preemptive else "fifo"
    world.queue("small", quota_policy=policy, **quota)
    world.queue("dead")
    world.queue("spent")
    world.manager.create_quota(replace(ROOM, policy=policy), world.now_us)
    world.queue("roomy", quota="room")
    for name, settings in TOPIC_SETTINGS.items():
        world.queue(name, kind="topic", **settings)
    delay_us = delay_ms * MS if delay_ms >= 0 else -1
    small, room = Pool(3, preemptive), Pool(ROOM.messages_maximum, preemptive)
    places = [
        Place("plain"),
        Place("strict", limit=1, delay_us=delay_us, dead_letters="dead", lost_link_counts=True),
        Place("late", redirect="spent", priority_override=7, ttl_override_ms=6),
        Place("units", unit_of_order=True),
        Place("groups", limit=2, dead_letters="dead", takers=Takers(grouped=True)),
        Place("single", takers=Takers(exclusive=True, most=3)),
        Place("small", pool=small, high_mark=2, low_mark=1),
        Place("dead", takes_children=True),
        Place("spent", takes_children=True),
        Place("roomy", pool=room),
    ]
    topics = [TopicPlace(name, limit=0, dead_letters="dead") for name in ("news", "news.sport")]
    topics += [TopicPlace("tight", quota=room), TopicPlace("each", most_each=2)]
    return Reference(places, topics)

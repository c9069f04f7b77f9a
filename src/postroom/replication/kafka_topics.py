"""The topics of a log in Apache Kafka: made with what durable needs, or checked whether they have it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    TopicDescription,
)

from postroom.replication.errors import EngineRefused
from postroom.replication.kafka_client import MOST_MESSAGE_BYTES, arrived
from postroom.replication.options import ALLOW_REPLICAS, ALLOW_SYNC, LEAST_REPLICAS, ReplicationOptions

LEAST_IN_SYNC: Final = 2
"""Replicas that have an entry when it is acknowledged."""
SEGMENT_BYTES: Final = 128 << 20
"""Of a log that is made: what was trimmed leaves the disk by segments."""
NOTES_SEGMENT_MS: Final = 600_000
"""Of the members' notes: older ones of the same member go."""
TOPIC_S: Final = 10.0
"""To make or describe a topic."""
PAUSE_S: Final = 0.05
"""Before it is looked again."""
UNBOUNDED: Final = "-1"

T = TypeVar("T")


def notes_topic(options: ReplicationOptions) -> str:
    """Where members say how far they are."""
    return f"{options.stream}-members"


def log_config(options: ReplicationOptions) -> dict[str, str]:
    """Of a log that is made."""
    config = {
        "cleanup.policy": "delete",
        "retention.ms": UNBOUNDED,
        "retention.bytes": UNBOUNDED,
        "max.message.bytes": str(MOST_MESSAGE_BYTES),
        "min.insync.replicas": str(min(LEAST_IN_SYNC, options.replicas)),
        "unclean.leader.election.enable": "false",
        "segment.bytes": str(SEGMENT_BYTES),
    }
    if ALLOW_SYNC not in options.allow:
        config["flush.messages"] = "1"
    return config


def _notes_config(options: ReplicationOptions) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "min.insync.replicas": str(min(LEAST_IN_SYNC, options.replicas)),
        "segment.ms": str(NOTES_SEGMENT_MS),
    }


async def ensure_topics(admin: AdminClient, options: ReplicationOptions) -> str:
    """Make the two topics unless they exist, and check the log's; its id.

    Raises `EngineRefused`, or `KafkaException` where the engine doesn't answer.
    """
    found = await _ensure(admin, options.stream, options.replicas, log_config(options))
    config = await _known(lambda: _config(admin, options.stream))
    for is_so, what in _defects(found, config):
        if is_so:
            raise EngineRefused(f"Kafka's topic {options.stream} {what}")
    _check_replicas(options, found, config)
    _check_sync(options, config)
    await _ensure(admin, notes_topic(options), options.replicas, _notes_config(options))
    return str(found.topic_id)


async def _ensure(admin: AdminClient, topic: str, replicas: int, config: dict[str, str]) -> TopicDescription:
    try:
        return await _describe(admin, topic)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise
    new = NewTopic(topic, num_partitions=1, replication_factor=replicas, config=config)
    try:
        await arrived(admin.create_topics([new], operation_timeout=TOPIC_S, request_timeout=TOPIC_S)[topic])
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # another member was quicker
            raise
    return await _known(lambda: _describe(admin, topic))


async def _known(lookup: Callable[[], Awaitable[T]]) -> T:
    """What is found of a topic that was made a moment ago, and that not every node knows of."""
    until_s = asyncio.get_running_loop().time() + TOPIC_S
    while True:
        try:
            return await lookup()
        except KafkaException as error:
            is_unknown = error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            if not is_unknown or asyncio.get_running_loop().time() > until_s:
                raise
        await asyncio.sleep(PAUSE_S)


async def _describe(admin: AdminClient, topic: str) -> TopicDescription:
    described = admin.describe_topics(TopicCollection([topic]), request_timeout=TOPIC_S)
    return await arrived(described[topic])


async def _config(admin: AdminClient, topic: str) -> dict[str, str]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = await arrived(admin.describe_configs([resource], request_timeout=TOPIC_S)[resource])
    return {name: entry.value or "" for name, entry in found.items()}


def _defects(found: TopicDescription, config: dict[str, str]) -> list[tuple[bool, str]]:
    """What can't be accepted."""
    most_bytes = config["max.message.bytes"]
    return [
        (len(found.partitions) != 1, f"has {len(found.partitions)} partitions: name one that has 1"),
        (
            config["cleanup.policy"] != "delete",
            f"has the cleanup.policy {config['cleanup.policy']}, which takes entries out of the middle: set"
            " it to delete",
        ),
        (
            config["retention.ms"] != UNBOUNDED,
            f"lets entries go by age, needed or not: set its retention.ms to {UNBOUNDED}",
        ),
        (
            config["retention.bytes"] != UNBOUNDED,
            f"lets entries go by size, needed or not: set its retention.bytes to {UNBOUNDED}",
        ),
        (
            int(most_bytes) < MOST_MESSAGE_BYTES,
            f"takes {most_bytes} bytes at once, an entry has up to {MOST_MESSAGE_BYTES}: set its"
            f" max.message.bytes to {MOST_MESSAGE_BYTES}",
        ),
        (
            config["unclean.leader.election.enable"] != "false",
            "may get a leader that lacks what was acknowledged: set its unclean.leader.election.enable to"
            " false",
        ),
    ]


def _check_replicas(options: ReplicationOptions, found: TopicDescription, config: dict[str, str]) -> None:
    if ALLOW_REPLICAS in options.allow:
        return
    accept = f'or accept it with allow = ["{ALLOW_REPLICAS}"]'
    replicas = min(len(partition.replicas) for partition in found.partitions)
    if replicas < LEAST_REPLICAS:
        raise EngineRefused(
            f"Kafka's topic {options.stream} has {replicas} replicas: what is lost with one node is lost;"
            f" make it {LEAST_REPLICAS}, {accept}"
        )
    in_sync = int(config["min.insync.replicas"])
    if in_sync < LEAST_IN_SYNC:
        raise EngineRefused(
            f"Kafka acknowledges an entry of topic {options.stream} that {in_sync} replica has: set its"
            f" min.insync.replicas to {LEAST_IN_SYNC}, {accept}"
        )


def _check_sync(options: ReplicationOptions, config: dict[str, str]) -> None:
    if ALLOW_SYNC in options.allow or config["flush.messages"] == "1":
        return
    raise EngineRefused(
        f"Kafka syncs topic {options.stream} every {config['flush.messages']} entries: what it has"
        " acknowledged since is lost when all its nodes lose their power; set its flush.messages to 1, or"
        f' accept it with allow = ["{ALLOW_SYNC}"]'
    )

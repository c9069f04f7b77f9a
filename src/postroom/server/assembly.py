"""The configuration in the queue manager's terms."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.errors import ManagerError
from postroom.manager.kernel.name_rules import DEAD_LETTERS
from postroom.manager.kernel.options import ManagerOptions, QueueDefinition
from postroom.manager.kernel.quota_definition import QuotaDefinition
from postroom.manager.manager import QueueManager
from postroom.manager.names.remote_queue_definition import RemoteQueueDefinition
from postroom.model.ids import MAX_ORIGIN_BYTES
from postroom.server.channels.supervisor import Channels
from postroom.server.configuration.config import Config
from postroom.server.exits import Exit, StartError

SUSPEND_SLACK_S: Final = 60
"""The server decides when a suspended link ends; the queue manager's own bound lies so much behind."""


def manager_options(config: Config) -> ManagerOptions:
    """The queue manager's bounds as the configuration has them."""
    auto, limits = config.auto_create, config.limits
    tables = (
        *(config.queue_manager, config.sending, config.flow_control, config.message_store),
        *(config.startup, config.transactions, config.spark),
    )
    return replace(
        config.queue_options(),
        queue_manager=config.container_id,
        name=config.container_id.encode()[:MAX_ORIGIN_BYTES].decode(errors="ignore"),
        auto_create=auto.enabled,
        max_auto_created_queues=auto.max_queues,
        auto_created_idle_ms=auto.idle_s * 1000,
        max_message_bytes=limits.max_message_bytes,
        max_channels=limits.max_channels,
        max_suspended_links=limits.suspended_links,
        max_suspend_ms=(limits.suspended_timeout_s + SUSPEND_SLACK_S) * 1000,
        **{option: value for table in tables for option, value in table.values().items()},
    )


@contextmanager
def _defining(what: str = "") -> Iterator[None]:
    """What the queue manager refuses, as `StartError`; ``what`` says of what it is told, unless it is."""
    try:
        yield
    except ManagerError as error:
        record = f"{what}: {error.description}" if what else error.description
        raise StartError(Exit.CONFIGURATION, record) from error


def define_queues(config: Config, manager: QueueManager, now_us: int) -> None:
    """Make the quotas, queues, topics and remote queues of the configuration; those that exist take its
    settings.

    Raises `StartError`.
    """
    for quota in config.quota:
        change_quota = manager.update_quota if quota.name in manager.quotas else manager.create_quota
        with _defining(f"quota {quota.name!r}"):
            change_quota(QuotaDefinition(**quota.values()), now_us)
    options = manager.options
    if options.dead_letter_queue == DEAD_LETTERS and DEAD_LETTERS not in manager.queues:
        manager.create_queue(options.new_queue(DEAD_LETTERS), now_us)
    for queue in config.queue:
        _define(manager, queue.definition(options), manager.queues.get(queue.name), now_us)
    for topic in config.topic:
        _define(manager, topic.definition(options), manager.topics.get(topic.name), now_us)
    names = manager.names
    for remote in config.remote_queue:
        change_remote = names.alter if remote.name in names.definitions else names.define
        with _defining(f"remote_queue {remote.name!r}"):
            change_remote(RemoteQueueDefinition(**remote.values()), now_us)
    with _defining("queue_manager.dead_letter_queue"):
        names.check_dead_letter_queue()


def define_channels(config: Config, channels: Channels, now_us: int) -> None:
    """Make the channels of the configuration; those that exist take its settings. Raises `StartError`."""
    for channel in config.channel:
        is_known = any(known.name == channel.name for known in channels.all())
        change = channels.alter if is_known else channels.define
        with _defining():
            change(channel.definition(), now_us)


def _define(
    manager: QueueManager, definition: QueueDefinition, existing: Destination | None, now_us: int
) -> None:
    with _defining(f"{definition.kind} {definition.name!r}"):
        if existing is None:
            manager.create_queue(definition, now_us)
            return
        definition = replace(definition, durably_paused=existing.definition.durably_paused)
        if existing.definition != definition:
            manager.update_queue(definition, now_us)

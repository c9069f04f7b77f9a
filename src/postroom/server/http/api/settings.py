"""What can be set, as types of JSON: from the definitions whose settings the broker checks and stores."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from postroom.manager.kernel.options import QUEUE_SETTINGS, QueueDefinition
from postroom.manager.kernel.quota_definition import QuotaDefinition
from postroom.manager.names.remote_queue_definition import RemoteQueueDefinition
from postroom.model.channel import ChannelDefinition
from postroom.model.settings import Bounds, bounds_of, types_of
from postroom.server.management.entities.channels import ONLY_CONFIGURED

CHANNEL_TYPES: Final = {"type": "channel_type"}
"""What a setting of a channel is called, where not by its name."""


def settings_of(definition: Any, renamed: Mapping[str, str] | None = None) -> dict[str, tuple[Any, Bounds]]:
    """The settings of a class of definitions, by the names that requests have for them: type and bounds."""
    bounds, renamed = bounds_of(definition), renamed or {}
    return {
        renamed.get(name, name): (kind, bounds.get(name, Bounds()))
        for name, kind in types_of(definition).items()
    }


def bounded_type(kind: Any, bounds: Bounds) -> Any:
    """The type of a setting as a request gives it."""
    if bounds.choices:
        return Literal[bounds.choices]
    if kind is int:
        return Annotated[int, Meta(ge=bounds.least, le=bounds.most)]
    return list[str] if kind is tuple else kind


def settings_struct(
    name: str,
    settings: Mapping[str, tuple[Any, Bounds]],
    bases: tuple[type[Struct], ...] = (),
    but: Collection[str] = (),
) -> type[Struct]:
    """A type whose fields are those settings, each of which may be left out."""
    fields = [
        (each, bounded_type(*known) | UnsetType, UNSET) for each, known in settings.items() if each not in but
    ]
    return msgspec.defstruct(
        name, fields, bases=bases or None, forbid_unknown_fields=True, kw_only=True, module=__name__
    )


class Named(Struct, kw_only=True, forbid_unknown_fields=True):
    """A thing that is to be made."""

    name: Annotated[str, Meta(min_length=1)]


class NamedSubscription(Named, kw_only=True):
    """A durable subscription that is to be made; its name is the whole `TOPIC::CLIENT/NAME` or `TOPIC::NAME`,
    as the other fields say."""

    topic: str
    subscription: str
    client: str | UnsetType = UNSET
    """Without it the subscription is global, and must be shared."""
    shared: bool | UnsetType = UNSET
    selector: str | UnsetType = UNSET
    no_local: bool | UnsetType = UNSET


QUEUE: Final = {name: known for name, known in settings_of(QueueDefinition).items() if name in QUEUE_SETTINGS}
QUOTA: Final = settings_of(QuotaDefinition)
REMOTE_QUEUE: Final = settings_of(RemoteQueueDefinition)
CHANNEL: Final = settings_of(ChannelDefinition, CHANNEL_TYPES)

QueueSettings: Final = settings_struct("QueueSettings", QUEUE)
NewQueue: Final = settings_struct("NewQueue", QUEUE, (Named,))
NewTopic: Final = settings_struct("NewTopic", QUEUE, (Named,))
NewSubscription: Final = settings_struct("NewSubscription", QUEUE, (NamedSubscription,))
QuotaSettings: Final = settings_struct("QuotaSettings", QUOTA)
NewQuota: Final = settings_struct("NewQuota", QUOTA, (Named,))
RemoteQueueSettings: Final = settings_struct("RemoteQueueSettings", REMOTE_QUEUE)
NewRemoteQueue: Final = settings_struct("NewRemoteQueue", REMOTE_QUEUE, (Named,))
ChannelSettings: Final = settings_struct("ChannelSettings", CHANNEL, but=(ONLY_CONFIGURED,))
NewChannel: Final = settings_struct("NewChannel", CHANNEL, (Named,), but=(ONLY_CONFIGURED,))

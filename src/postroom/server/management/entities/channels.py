"""Channels, as the management node shows, changes and commands them: the verbs are those of IBM MQ's MQSC."""

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any, Final, NamedTuple

from postroom.manager.channels.channel import Batch, Channel, ChannelSync
from postroom.model.channel import ChannelDefinition
from postroom.model.channel_states import ChannelState, Verdict
from postroom.model.entity_types import CHANNEL_TYPE
from postroom.model.settings import types_of
from postroom.server.channels.instance import ChannelInstance, LinkStatus, StopMode
from postroom.server.channels.outbound_connection import Outward
from postroom.server.channels.supervised_channel import Supervised
from postroom.server.channels.supervisor import supervisor_of
from postroom.server.management.entity_type import Columns, DefinedEntityType, Operation, same_named
from postroom.server.management.request import (
    BAD_GATEWAY,
    BAD_REQUEST,
    CONFLICT,
    FORBIDDEN,
    OK,
    Attributes,
    Later,
    Request,
    RequestError,
    Response,
)

ONLY_CONFIGURED: Final = "message_retry_exit"
"""Names code that the broker runs: whoever may send management requests may not choose that."""

_SHOWN_TYPE: Final = "channel_type"
"""The attribute that is the setting ``type``; the attribute of that name is the entity type."""
_SETTINGS: Final = {_SHOWN_TYPE if name == "type" else name: name for name in types_of(ChannelDefinition)}
"""Each attribute that is a setting, and which."""
_SETTABLE: Final = {shown: types_of(ChannelDefinition)[name] for shown, name in _SETTINGS.items()}


class _Status(NamedTuple):
    """A channel, its run and what that has done so far."""

    channel: Supervised
    instance: ChannelInstance | None
    now: LinkStatus
    is_linked: bool
    sync: ChannelSync
    doubtful: list[Batch]


_STATUS: Final[Columns[_Status]] = {
    "state": lambda run: run.channel.state.name.lower(),
    **same_named("reason", "since_us", of="channel"),
    "partner": lambda run: run.channel.last_partner if run.instance is None else run.instance.partner,
    "address": lambda run: run.channel.last_address if run.instance is None else run.instance.address,
    "started_us": lambda run: 0 if run.instance is None else run.instance.started_us,
    "last_message_us": lambda run: run.channel.moved_us,
    "messages": lambda run: run.channel.before.messages + run.now.messages,
    "bytes": lambda run: run.channel.before.bytes + run.now.bytes,
    "batches": lambda run: run.channel.before.batches + run.now.batches,
    **same_named("current_messages", of="now"),
    "current_sequence": lambda run: run.now.current_sequence if run.is_linked else run.sync.last_sequence,
    "current_luwid": lambda run: run.now.current_luwid.hex(),
    "in_doubt": lambda run: bool(run.doubtful),
    "in_doubt_luwid": lambda run: run.doubtful[0].luwid.hex() if run.doubtful else "",
    "in_doubt_messages": lambda run: sum(int(batch.count) for batch in run.doubtful),
    **same_named("last_sequence", "reset_sequence", of="sync"),
    "last_luwid": lambda run: run.sync.last_luwid.hex(),
    "short_retries_left": lambda run: run.channel.short_left,
    "long_retries_left": lambda run: run.channel.long_left,
    "retry_us": lambda run: run.channel.retry_us if run.channel.state == ChannelState.RETRYING else 0,
}

_MODES: Final = {mode.name.lower(): mode for mode in StopMode}
_STATUSES: Final = {"stopped": False, "inactive": True}
_DECISIONS: Final = {"commit": True, "backout": False}


class ChannelEntities(DefinedEntityType[Supervised, ChannelDefinition]):
    """The channels of one broker."""

    type: Final = CHANNEL_TYPE
    kind = "channel"
    definition = ChannelDefinition
    settable = _SETTABLE

    def make_columns(self) -> Columns[Supervised]:
        """The definition; the status stands behind it."""
        return {shown: attrgetter(f"definition.{name}") for shown, name in _SETTINGS.items()}

    def make_operations(self) -> Mapping[str, Operation]:
        return {
            **super().make_operations(),
            "START": self._start,
            "STOP": self._stop,
            "RESET": self._reset,
            "RESOLVE": self._resolve,
            "PING": self._ping,
        }

    def attribute_names(self) -> list[str]:
        return [*super().attribute_names(), *_STATUS]

    def all(self) -> Iterable[Supervised]:
        return supervisor_of(self.broker).all()

    def find(self, request: Request) -> Supervised:
        return supervisor_of(self.broker).find(request.required_name())

    def shown(self, thing: Supervised) -> Attributes:
        """Definition and status."""
        instance = thing.instance
        link = None if instance is None else instance.link
        now = LinkStatus() if link is None else link.status()
        sync = self.manager.channels.sync(thing.name)
        run = _Status(thing, instance, now, link is not None, sync, _in_doubt(thing.channel))
        return super().shown(thing) | {name: get(run) for name, get in _STATUS.items()}

    # Definitions.

    def settings(self, request: Request) -> Attributes:
        found = super().settings(request)
        if ONLY_CONFIGURED in found:
            raise RequestError(FORBIDDEN, f"{ONLY_CONFIGURED} is set in the configuration file only")
        if _SHOWN_TYPE not in found and request.operation == "CREATE":
            what = f"a channel needs a {_SHOWN_TYPE}: sender, receiver, server or requester"
            raise RequestError(BAD_REQUEST, what)
        return {_SETTINGS[shown]: value for shown, value in found.items()}

    def define(self, definition: ChannelDefinition, now_us: int) -> Supervised:
        return supervisor_of(self.broker).define(definition, now_us)

    def alter(self, definition: ChannelDefinition, now_us: int) -> Supervised:
        return supervisor_of(self.broker).alter(definition, now_us)

    def drop(self, name: str, now_us: int) -> None:
        supervisor_of(self.broker).delete(name, now_us)

    # Commands.

    def _start(self, request: Request, now_us: int) -> Response:
        channel = self.find(request)
        if channel.start(now_us) == Verdict.IN_USE:
            raise RequestError(CONFLICT, f"channel {channel.name!r} is {_state(channel)} already")
        return Response(OK, _state(channel), self.shown(channel))

    def _stop(self, request: Request, now_us: int) -> Response:
        channel = self.find(request)
        mode = _choice(request, "mode", _MODES, "quiesce")
        to_inactive = _choice(request, "status", _STATUSES, "stopped")
        channel.stop(mode, to_inactive, now_us)
        return Response(OK, _state(channel), self.shown(channel))

    def _reset(self, request: Request, now_us: int) -> Response:
        sequence = request.attributes().get("sequence", 1)
        if isinstance(sequence, bool) or not isinstance(sequence, int):
            raise RequestError(BAD_REQUEST, f"sequence is {sequence!r}, must be a whole number")
        channel = self.find(request)
        supervisor_of(self.broker).reset(channel.name, int(sequence), now_us)
        return Response(OK, "reset", self.shown(channel))

    def _resolve(self, request: Request, now_us: int) -> Response:
        commit = _choice(request, "action", _DECISIONS, "")
        channel = self.find(request)
        supervisor_of(self.broker).resolve(channel.name, commit, now_us)
        return Response(OK, "resolved", self.shown(channel))

    def _ping(self, request: Request, now_us: int) -> Response | Later:
        ping = Ping(now_us)
        ping.outward = supervisor_of(self.broker).open_ping(request.required_name(), ping)
        return ping.later


class Ping:
    """One PING: opens a connection as the channel would, and closes it."""

    def __init__(self, now_us: int) -> None:
        self.outward: Outward | None = None
        self.later: Final = Later(self._cancel)
        self._began_us: Final = now_us

    def connected(self, outward: Outward, now_us: int) -> None:
        """The partner has answered."""
        outward.end(False)
        took_us = max(0, now_us - self._began_us)
        self.later.answer(Response(OK, "OK", {"partner": outward.partner, "took_us": took_us}), now_us)

    def connection_failed(self, outward: Outward, why: str, lasting: bool, now_us: int) -> None:
        self.later.answer(Response(BAD_GATEWAY, why, {}), now_us)

    def _cancel(self) -> None:
        if self.outward is not None:
            self.outward.end(True)


def _state(channel: Supervised) -> str:
    return channel.state.name.lower()


def _in_doubt(channel: Channel) -> list[Batch]:
    """Batches of a sending end that were asked for and aren't decided, the oldest first."""
    return channel.sending.in_doubt if channel.sending is not None else channel.batches


def _choice(request: Request, key: str, choices: Mapping[str, Any], default: str) -> Any:
    """What the word in the request's body stands for."""
    word = request.attributes().get(key, default)
    if not isinstance(word, str) or word.lower() not in choices:
        raise RequestError(BAD_REQUEST, f"{key} is {word!r}, must be one of {', '.join(choices)}")
    return choices[word.lower()]

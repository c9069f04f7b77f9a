"""Channels, as the management node shows, changes and commands them: the verbs are those of IBM MQ's MQSC."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from postroom.manager.channels.channel import Batch, Channel
from postroom.model.channel import ChannelDefinition
from postroom.model.channel_states import ChannelState, Verdict
from postroom.model.entity_types import CHANNEL_TYPE
from postroom.server.channels.instance import LinkStatus, StopMode
from postroom.server.channels.outbound_connection import Outward
from postroom.server.channels.supervised_channel import Supervised
from postroom.server.management.entity_type import ListedEntityType, Operation
from postroom.server.management.request import (
    BAD_GATEWAY,
    BAD_REQUEST,
    CONFLICT,
    CREATED,
    FORBIDDEN,
    NO_CONTENT,
    OK,
    Attributes,
    Later,
    Request,
    RequestError,
    Response,
)

if TYPE_CHECKING:
    from postroom.server.connection.broker import Broker


ONLY_CONFIGURED: Final = "message_retry_exit"
"""Names code that the broker runs: whoever may send management requests may not choose that."""

_RENAMED: Final = {"type": "channel_type"}
"""``type`` is that of the entity type."""
_DEFINITION: Final = tuple(_RENAMED.get(each.name, each.name) for each in fields(ChannelDefinition))
_STATUS: Final = (
    *("state", "reason", "since_us", "partner", "address", "started_us", "last_message_us"),
    *("messages", "bytes", "batches", "current_messages", "current_sequence", "current_luwid"),
    *("in_doubt", "in_doubt_luwid", "in_doubt_messages", "last_sequence", "last_luwid"),
    *("short_retries_left", "long_retries_left", "retry_us", "reset_sequence"),
)
_ATTRIBUTES: Final = ("identity", *_DEFINITION, *_STATUS)
_SETTABLE: Final[Mapping[str, type]] = {
    _RENAMED.get(key, key): type(value) for key, value in ChannelDefinition(name="").to_record().items()
}

_MODES: Final = {mode.name.lower(): mode for mode in StopMode}
_STATUSES: Final = {"stopped": False, "inactive": True}
_DECISIONS: Final = {"commit": True, "backout": False}


class ChannelEntities(ListedEntityType[Supervised]):
    """The channels of one broker."""

    type: Final = CHANNEL_TYPE

    def __init__(self, broker: "Broker") -> None:
        self._broker: Final = broker
        self._channels: Final = broker.channels
        self.operations: Final[Mapping[str, Operation]] = {
            "CREATE": self._create,
            "READ": self.read,
            "UPDATE": self._update,
            "DELETE": self._delete,
            "START": self._start,
            "STOP": self._stop,
            "RESET": self._reset,
            "RESOLVE": self._resolve,
            "PING": self._ping,
        }

    def attribute_names(self) -> list[str]:
        return ["type", *_ATTRIBUTES]

    def all(self) -> Iterable[Supervised]:
        return self._channels.all()

    def find(self, request: Request) -> Supervised:
        return self._channels.find(request.required_name())

    def shown(self, channel: Supervised) -> Attributes:
        """Definition and status."""
        record = channel.definition.to_record()
        shown = {_RENAMED.get(key, key): value for key, value in record.items()}
        return {"type": CHANNEL_TYPE, "identity": channel.name, **shown, **self._status(channel)}

    def _status(self, channel: Supervised) -> Attributes:
        instance = channel.instance
        link = None if instance is None else instance.link
        now = LinkStatus() if link is None else link.status()
        before, sync = channel.before, self._broker.manager.channels.sync(channel.name)
        doubtful = _in_doubt(channel.channel)
        values: dict[str, Any] = {
            "state": channel.state.name.lower(),
            "reason": channel.reason,
            "since_us": channel.since_us,
            "partner": channel.last_partner if instance is None else instance.partner,
            "address": channel.last_address if instance is None else instance.address,
            "started_us": 0 if instance is None else instance.started_us,
            "last_message_us": channel.moved_us,
            "messages": before.messages + now.messages,
            "bytes": before.bytes + now.bytes,
            "batches": before.batches + now.batches,
            "current_messages": now.current_messages,
            "current_sequence": now.current_sequence if link is not None else sync.last_sequence,
            "current_luwid": now.current_luwid.hex(),
            "in_doubt": bool(doubtful),
            "in_doubt_luwid": doubtful[0].luwid.hex() if doubtful else "",
            "in_doubt_messages": sum(int(batch.count) for batch in doubtful),
            "last_sequence": sync.last_sequence,
            "last_luwid": sync.last_luwid.hex(),
            "short_retries_left": channel.short_left,
            "long_retries_left": channel.long_left,
            "retry_us": channel.retry_us if channel.state == ChannelState.RETRYING else 0,
            "reset_sequence": sync.reset_sequence,
        }
        return values

    # Definitions.

    def _settings(self, request: Request) -> Attributes:
        found = request.settings("channel", _SETTABLE)
        if ONLY_CONFIGURED in found:
            raise RequestError(FORBIDDEN, f"{ONLY_CONFIGURED} is set in the configuration file only")
        back = {new: old for old, new in _RENAMED.items()}
        return {back.get(key, key): value for key, value in found.items()}

    def _create(self, request: Request, now_us: int) -> Response:
        name = request.required_name()
        if any(channel.name == name for channel in self.all()):
            raise RequestError(CONFLICT, f"channel {name!r} exists already")
        settings = self._settings(request)
        if "type" not in settings:
            what = "a channel needs a channel_type: sender, receiver, server or requester"
            raise RequestError(BAD_REQUEST, what)
        defined = self._channels.define(ChannelDefinition(name=name, **settings), now_us)
        return Response(CREATED, "created", self.shown(defined))

    def _update(self, request: Request, now_us: int) -> Response:
        changed = replace(self.find(request).definition, **self._settings(request))
        return Response(OK, "OK", self.shown(self._channels.alter(changed, now_us)))

    def _delete(self, request: Request, now_us: int) -> Response:
        self._channels.delete(request.required_name(), now_us)
        return Response(NO_CONTENT, "deleted", {})

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
        self._channels.reset(channel.name, int(sequence), now_us)
        return Response(OK, "reset", self.shown(channel))

    def _resolve(self, request: Request, now_us: int) -> Response:
        commit = _choice(request, "action", _DECISIONS, "")
        channel = self.find(request)
        self._channels.resolve(channel.name, commit, now_us)
        return Response(OK, "resolved", self.shown(channel))

    def _ping(self, request: Request, now_us: int) -> Response | Later:
        ping = Ping(now_us)
        ping.outward = self._channels.open_ping(request.required_name(), ping)
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

"""Addresses of brokers: ``amqp://user:password@host:port``, ``amqps://`` for TLS, and several of them as
``failover:(amqp://a,amqp://b)``. Options stand behind a question mark, by the names that Qpid JMS gave them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

DEFAULT_PORT: Final = 5672
DEFAULT_TLS_PORT: Final = 5671
PLAIN_SCHEME: Final = "amqp"
TLS_SCHEME: Final = "amqps"
DEFAULT_PORTS: Final = {PLAIN_SCHEME: DEFAULT_PORT, TLS_SCHEME: DEFAULT_TLS_PORT}
FAILOVER_SCHEME: Final = "failover:"
FAILOVER_PREFIX: Final = "failover."
NESTED_PREFIX: Final = "failover.nested."
OPTION_PREFIXES: Final = ("jms.", "amqp.", "transport.")
UNLIMITED: Final = -1
_COMPOSITE: Final = re.compile(r"\(([^()]*)\)(?:\?(.*))?|([^()?]+)(?:\?(.*))?", re.DOTALL)


class ServerListAction(Enum):
    """What becomes of the list of brokers that a broker sends in its open."""

    REPLACE = "REPLACE"
    """From now on those, and the one that sent it."""
    ADD = "ADD"
    IGNORE = "IGNORE"


@dataclass(frozen=True, kw_only=True)
class FailoverOptions:
    """When and how often to reconnect. One attempt tries every broker once. −1: no limit."""

    initial_reconnect_delay_ms: int = 0
    """Before the first attempt after a break."""
    reconnect_delay_ms: int = 10
    """Between one attempt and the next; where it grows, the first such delay."""
    max_reconnect_delay_ms: int = 30_000
    """What a growing delay ends at."""
    use_reconnect_back_off: bool = True
    """Whether the delay grows from attempt to attempt."""
    reconnect_back_off_multiplier: float = 2.0
    max_reconnect_attempts: int = UNLIMITED
    """After so many the connection has failed; 0: a break is final."""
    startup_max_reconnect_attempts: int = UNLIMITED
    """The same until the first connection succeeds; −1: as `max_reconnect_attempts`."""
    warn_after_reconnect_attempts: int = 10
    """A warning is logged each time so many attempts have failed; 0 or less: never."""
    randomize: bool = False
    """Try the brokers in random order, not in that of the URL."""
    amqp_open_server_list_action: ServerListAction = ServerListAction.REPLACE


@dataclass(frozen=True, kw_only=True)
class BrokerUrl:
    """Where a broker listens, and as whom to sign in (``user`` None: ANONYMOUS)."""

    host: str
    port: int = DEFAULT_PORT
    user: str | None = None
    password: str = ""
    tls: bool = False
    options: dict[str, str] = field(default_factory=dict, compare=False)
    """Those of this broker alone, ``amqp.*`` and ``transport.*``, as they were written."""

    @classmethod
    def parse(cls, url: str) -> BrokerUrl:
        """Read ``amqp[s]://[user[:password]@]host[:port][?options]``; user and password are percent-encoded.

        Raises ValueError that says which part is wrong; the password is never part of the text.
        """
        parts = urlsplit(url if "://" in url else f"amqp://{url}")
        if parts.scheme not in DEFAULT_PORTS:
            raise ValueError(
                f"scheme {parts.scheme!r} of the broker's URL is not known; use amqp://host:port or amqps://host:port"
            )
        if not parts.hostname:
            raise ValueError("the broker's URL has no host; use amqp://host:port")
        if parts.path.strip("/") or parts.fragment:
            raise ValueError("the broker's URL has no path and no fragment; use amqp://host:port?options")
        try:
            port = parts.port
        except ValueError as error:
            raise ValueError(f"the port of the broker's URL is no number from 1 to 65535: {error}") from None
        return cls(
            host=parts.hostname,
            port=DEFAULT_PORTS[parts.scheme] if port is None else port,
            user=unquote(parts.username) if parts.username is not None else None,
            password=unquote(parts.password or ""),
            tls=parts.scheme == TLS_SCHEME,
            options=read_options(parts.query),
        )

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{TLS_SCHEME if self.tls else PLAIN_SCHEME}://{host}:{self.port}"


@dataclass(frozen=True, kw_only=True)
class ParsedUrl:
    """All that a connection factory's URL says."""

    brokers: tuple[BrokerUrl, ...]
    """One, or with fail-over those to try, in order."""
    failover: FailoverOptions | None = None
    """None: a broken connection stays broken."""
    options: dict[str, str] = field(default_factory=dict)
    """``jms.*``, ``amqp.*`` and ``transport.*`` options of all brokers, as they were written."""


def parse_url(url: str) -> ParsedUrl:
    """Read ``amqp[s]://…[?options]`` or ``failover:(amqp://…,amqp://…)[?options]``.

    Raises ValueError that says which part is wrong, without passwords.
    """
    if not url.startswith(FAILOVER_SCHEME):
        broker = BrokerUrl.parse(url)
        options = _known(broker.options)
        return ParsedUrl(brokers=(replace(broker, options={}),), options=options)
    found = _COMPOSITE.fullmatch(url.removeprefix(FAILOVER_SCHEME))
    if found is None:
        raise ValueError("a failover URL is failover:(amqp://a:5672,amqp://b:5672)?options")
    inner, query = found[1] or found[3] or "", found[2] or found[4] or ""
    return _composite([part.strip() for part in inner.split(",")], read_options(query))


def _composite(parts: list[str], options: dict[str, str]) -> ParsedUrl:
    nested = {name.removeprefix(NESTED_PREFIX): value for name, value in options.items() if _is_nested(name)}
    own = {name: value for name, value in options.items() if not _is_nested(name)}
    failover = {name: value for name, value in own.items() if name.startswith(FAILOVER_PREFIX)}
    brokers = [BrokerUrl.parse(part) for part in parts]
    return ParsedUrl(
        brokers=tuple(replace(broker, options=_known(nested | broker.options)) for broker in brokers),
        failover=failover_options(failover),
        options=_known({name: value for name, value in own.items() if name not in failover}),
    )


def _is_nested(name: str) -> bool:
    return name.startswith(NESTED_PREFIX)


def read_options(query: str) -> dict[str, str]:
    """The options of a URL by name; ValueError for one without a value, or said twice."""
    found: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        pair = parse_qsl(part, keep_blank_values=True)
        name = pair[0][0] if pair else part
        if not pair or "=" not in part:
            raise ValueError(f"option {name!r} of the broker's URL has no value; write {name}=value")
        if name in found:
            raise ValueError(f"option {name!r} stands twice in the broker's URL")
        found[name] = pair[0][1]
    return found


def _known(options: dict[str, str]) -> dict[str, str]:
    for name in options:
        if not name.startswith(OPTION_PREFIXES):
            raise ValueError(
                f"option {name!r} of the broker's URL is not known: they begin with"
                f" {', '.join(OPTION_PREFIXES)} (and failover. in a failover URL)"
            )
    return options


def failover_options(options: dict[str, str]) -> FailoverOptions:
    """Read the ``failover.*`` options; ValueError names the one that is wrong."""
    values: dict[str, object] = {}
    for name, text in options.items():
        known = _OPTIONS.get(name.removeprefix(FAILOVER_PREFIX))
        if known is None:
            there_are = ", ".join(FAILOVER_PREFIX + each for each in _OPTIONS)
            raise ValueError(f"option {name!r} is not known; there are {there_are}")
        attribute, read = known
        try:
            values[attribute] = read(text)
        except ValueError as error:
            raise ValueError(f"option {name}={text!r} of the broker's URL: {error}") from None
    return FailoverOptions(**values)  # type: ignore[arg-type] # each reader gives its attribute's type


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("it is true or false")
    return text == "true"


def _delay_ms(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("it is a number of milliseconds, 0 or more")
    return int(text)


def _limit(text: str) -> int:
    if not text.removeprefix("-").isdecimal() or int(text) < UNLIMITED:
        raise ValueError("it is a number, -1 for no limit")
    return int(text)


def _multiplier(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1.0 <= value <= 1000.0:
        raise ValueError("it is a number from 1 to 1000")
    return value


def _action(text: str) -> ServerListAction:
    try:
        return ServerListAction[text.upper()]
    except KeyError:
        raise ValueError("it is REPLACE, ADD or IGNORE") from None


_OPTIONS: Final[dict[str, tuple[str, Callable[[str], object]]]] = {
    "initialReconnectDelay": ("initial_reconnect_delay_ms", _delay_ms),
    "reconnectDelay": ("reconnect_delay_ms", _delay_ms),
    "maxReconnectDelay": ("max_reconnect_delay_ms", _delay_ms),
    "useReconnectBackOff": ("use_reconnect_back_off", _flag),
    "reconnectBackOffMultiplier": ("reconnect_back_off_multiplier", _multiplier),
    "maxReconnectAttempts": ("max_reconnect_attempts", _limit),
    "startupMaxReconnectAttempts": ("startup_max_reconnect_attempts", _limit),
    "warnAfterReconnectAttempts": ("warn_after_reconnect_attempts", _limit),
    "randomize": ("randomize", _flag),
    "amqpOpenServerListAction": ("amqp_open_server_list_action", _action),
}

"""Fail-over: which broker to try next, when, and for how long. Pure; ``provider`` acts on it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final

from postroom.client.connection.url import (
    DEFAULT_PORTS,
    PLAIN_SCHEME,
    TLS_SCHEME,
    UNLIMITED,
    BrokerUrl,
    FailoverOptions,
    ServerListAction,
)
from postroom.client.durations import MS_A_SECOND

SERVER_LIST: Final = "failover-server-list"
"""Property of an open: other brokers that have the same (Qpid JMS)."""
MAX_BROKERS: Final = 100
"""Known at a time; what lists name beyond that is passed over."""
NETWORK_HOST: Final = "network-host"
HOSTNAME: Final = "hostname"
PORT: Final = "port"
SCHEME: Final = "scheme"
MAX_PORT: Final = 65_535


class BrokerPool:
    """The brokers to try, in order."""

    def __init__(self, brokers: Sequence[BrokerUrl], options: FailoverOptions | None) -> None:
        self.brokers = list(brokers)
        self._options = options
        if options is not None and options.randomize:
            random.shuffle(self.brokers)

    def attempt(self) -> list[BrokerUrl]:
        """Those to try now, each once."""
        return list(self.brokers)

    def connected(self, broker: BrokerUrl, properties: Mapping[object, object] | None) -> None:
        """``broker`` has let us in, with these properties in its open: the list that it sends counts as the
        option amqpOpenServerListAction says. Next time it is tried last: it may be the one that broke.
        """
        listed = self._listed(broker, properties)
        action = (
            ServerListAction.IGNORE if self._options is None else self._options.amqp_open_server_list_action
        )
        if listed and action is not ServerListAction.IGNORE:
            known = [] if action is ServerListAction.REPLACE else self.brokers
            self.brokers = list(dict.fromkeys([*known, *listed]))[:MAX_BROKERS]
        self.brokers = [other for other in self.brokers if other != broker] + [broker]

    def redirected(self, broker: BrokerUrl, info: object) -> None:
        """``broker`` has sent us elsewhere with amqp:connection:redirect: that one is tried first."""
        found = listed_broker(broker, info)
        if found is not None:
            self.brokers = [found, *(other for other in self.brokers if other != found)][:MAX_BROKERS]

    def _listed(self, broker: BrokerUrl, properties: Mapping[object, object] | None) -> list[BrokerUrl]:
        entries = (properties or {}).get(SERVER_LIST)
        if not isinstance(entries, list):
            return []
        found = [listed_broker(broker, entry) for entry in entries[:MAX_BROKERS]]
        return [each for each in found if each is not None]


def listed_broker(sender: BrokerUrl, entry: object) -> BrokerUrl | None:
    """A broker that another one has named; who signs in there, and how, is as with the one that named it.

    None where ``entry`` names none.
    """
    if not isinstance(entry, Mapping):
        return None
    fields = {str(name): value for name, value in entry.items()}
    host = fields.get(NETWORK_HOST) or fields.get(HOSTNAME)
    scheme = str(fields.get(SCHEME) or (TLS_SCHEME if sender.tls else PLAIN_SCHEME))
    if not isinstance(host, str) or scheme not in DEFAULT_PORTS:
        return None
    if sender.tls and scheme != TLS_SCHEME:
        return None  # a password that was meant for TLS is not to go out in the clear
    port = fields.get(PORT)
    if not isinstance(port, int) or not 0 < port <= MAX_PORT:
        port = DEFAULT_PORTS[scheme]
    return BrokerUrl(
        host=host,
        port=int(port),
        user=sender.user,
        password=sender.password,
        tls=scheme == TLS_SCHEME,
        options=sender.options,
    )


class Backoff:
    """Counts the attempts after one break, or at the start, and says how long to wait before each."""

    def __init__(self, options: FailoverOptions | None, starting: bool, soon: bool = False) -> None:
        """``options`` None: one attempt at the start, none after a break. ``soon``: the connection broke as
        soon as it was there, so that even the first attempt waits.
        """
        self._soon = soon
        self.attempts = 0
        self._options = options or FailoverOptions(max_reconnect_attempts=1 if starting else 0)
        self._starting = starting

    @property
    def limit(self) -> int:
        """How many attempts there may be; −1: as many as it takes. At the start there is one at least."""
        options = self._options
        if not self._starting:
            return options.max_reconnect_attempts
        startup = options.startup_max_reconnect_attempts
        limit = options.max_reconnect_attempts if startup == UNLIMITED else startup
        return limit if limit == UNLIMITED else max(limit, 1)

    @property
    def exhausted(self) -> bool:
        """No more attempts."""
        return self.limit != UNLIMITED and self.attempts >= self.limit

    @property
    def warns(self) -> bool:
        """Whether the application's log is to hear of the attempts so far."""
        every = self._options.warn_after_reconnect_attempts
        return every > 0 and self.attempts > 0 and self.attempts % every == 0

    def next_delay_s(self) -> float:
        """How long to wait before the next attempt, which counts from now on; seconds."""
        self.attempts += 1
        options = self._options
        if self.attempts == 1:
            least_ms = options.reconnect_delay_ms if self._soon else 0
            return 0.0 if self._starting else max(options.initial_reconnect_delay_ms, least_ms) / MS_A_SECOND
        if not options.use_reconnect_back_off:
            return options.reconnect_delay_ms / MS_A_SECOND
        return self._grown_ms() / MS_A_SECOND

    def _grown_ms(self) -> float:
        """reconnectDelay × multiplier to the power of the delays before this one; the exponent is bounded,
        the delay is at its maximum long before.
        """
        options = self._options
        growth = options.reconnect_back_off_multiplier ** min(self.attempts - 2, 64)
        return min(options.reconnect_delay_ms * growth, options.max_reconnect_delay_ms)

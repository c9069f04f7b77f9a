"""Failed sign-ins are slowed down: who has failures behind them, by address and user or by address, hears of
the next one later, twice as late each time.

It is the refusal that waits, never a check or a good sign-in; whether the user exists makes no difference.
So that many connections at a time gain nothing, few refusals may wait for one user and address: further
sign-ins of that user from there are turned away unchecked until one of them is out, whoever hangs up
meanwhile. Other addresses notice nothing of all this.
"""

import heapq
import ipaddress
from collections import Counter
from collections.abc import Callable
from typing import Final

from postroom.server.configuration.sign_in import SignInConfig

MAX_REMEMBERED: Final = 10_000
"""Users with their addresses, and addresses, with failures."""
MAX_REMEMBERED_CHARS: Final = 256
"""Of a user's name."""
IPV6_NETWORK_BITS: Final = 64
"""What one machine has of IPv6 at least: its addresses in it are one."""
_MAX_DOUBLINGS: Final = 40

Key = tuple[str, str]
"""An address and a user; of the address alone the user is ""."""
Refuse = Callable[[int], None]
"""Sends the refusal; takes the time."""


def key_of(remote: str, user: str) -> Key:
    """Of ``HOST:PORT``, and a user."""
    host = remote.rpartition(":")[0] or remote
    if ":" in host:
        try:
            network = ipaddress.ip_network(
                (host.strip("[]").partition("%")[0], IPV6_NETWORK_BITS), strict=False
            )
            host = str(network.network_address)
        except ValueError:
            pass  # no address: stands for itself
    return host, user[:MAX_REMEMBERED_CHARS]


class FailedSignIns:
    """Those of one broker, and the refusals that wait."""

    def __init__(self, config: SignInConfig, open_timeout_ms: int) -> None:
        self._failures: Final[dict[Key, tuple[int, int]]] = {}
        """How many, and the time of the last; in the order of that."""
        self._due: Final[list[tuple[int, int, Key, Refuse]]] = []
        """A heap: when, a number that orders those of one time, for whom, and what sends it."""
        self._waiting: Final[Counter[Key]] = Counter()
        """Refusals that wait, by address and user, and by address."""
        self._last_number = 0
        self._most_ms: Final = open_timeout_ms // 2
        self.configure(config)

    def configure(self, config: SignInConfig) -> None:
        """Take these bounds from now on."""
        self._config = config
        self._max_delay_us = min(config.max_failure_delay_ms, self._most_ms) * 1000

    @property
    def waiting(self) -> int:
        """How many refusals wait."""
        return len(self._due)

    def count(self, key: Key) -> int:
        """How many failures are remembered."""
        return self._failures.get(key, (0, 0))[0]

    def forget(self, key: Key) -> None:
        """That user has signed in from there."""
        self._failures.pop(key, None)

    def crowded(self, remote: str, user: str) -> bool:
        """Whether so many refusals wait that another sign-in from there isn't looked at."""
        key = key_of(remote, user)
        if self._waiting[key] >= self._config.waiting_per_user:
            return True
        return self._waiting[key[0], ""] >= self._config.waiting_per_address

    def add(self, remote: str, user: str, refuse: Refuse, now_us: int) -> None:
        """``user`` wasn't let in from ``remote``: have that said, now or later."""
        key = key_of(remote, user)
        of_address = self._noted((key[0], ""), now_us)
        of_user = self._noted(key, now_us) if user else 0
        delay_us = max(
            self._delay_us(of_user), self._delay_us(of_address - self._config.address_failures + 1)
        )
        if delay_us == 0:
            refuse(now_us)
            return
        if len(self._due) >= self._config.waiting:
            self._release(now_us)
        self._last_number += 1
        heapq.heappush(self._due, (now_us + delay_us, self._last_number, key, refuse))
        self._waiting.update(_counted(key))

    def _noted(self, key: Key, now_us: int) -> int:
        """How many there were before this one."""
        count, last_us = self._failures.pop(key, (0, 0))
        if now_us - last_us >= self._config.failure_memory_s * 1_000_000:
            count = 0
        self._failures[key] = (count + 1, now_us)
        while len(self._failures) > MAX_REMEMBERED:
            del self._failures[next(iter(self._failures))]
        return count

    def _delay_us(self, failures: int) -> int:
        if failures <= 0:
            return 0
        doubled = self._config.failure_delay_ms * 1000 << min(failures - 1, _MAX_DOUBLINGS)
        return min(doubled, self._max_delay_us)

    def next_deadline_us(self) -> int:
        """When `on_time` is wanted; 0 never."""
        return self._due[0][0] if self._due else 0

    def on_time(self, now_us: int) -> None:
        """Send the refusals that are due."""
        while self._due and self._due[0][0] <= now_us:
            self._release(now_us)

    def _release(self, now_us: int) -> None:
        _, _, key, refuse = heapq.heappop(self._due)
        for each in _counted(key):
            self._waiting[each] -= 1
            if not self._waiting[each]:
                del self._waiting[each]
        refuse(now_us)


def _counted(key: Key) -> set[Key]:
    return {key, (key[0], "")}

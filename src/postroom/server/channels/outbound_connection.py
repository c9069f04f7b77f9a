"""A connection that the broker opens itself: to whom, as whom, and who wants it.

Who wants one makes an `Outward` and lists it in ``Channels.wanted``. The service (or a test, or the
simulation) takes it from there, opens the way and asks `Broker.connect_outward` for its binding, or says
`Outward.fail`. From then on the binding tells the outward connection what becomes of it.
"""

from dataclasses import dataclass, field
from typing import Final, Protocol

from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine.options import ConnectionOptions
from postroom.amqp.errors import (
    INVALID_FIELD,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    UNAUTHORIZED_ACCESS,
)
from postroom.amqp.frames.sasl import ANONYMOUS, EXTERNAL, PLAIN, SASL_SYS_TEMP
from postroom.model.channel import addresses_of
from postroom.server.configuration.config import Config
from postroom.server.kernel.connection_state import ConnectionState

TLS_SCHEME: Final = "amqps"

LASTING: Final = frozenset({UNAUTHORIZED_ACCESS, NOT_ALLOWED, NOT_IMPLEMENTED, NOT_FOUND, INVALID_FIELD})
"""Conditions that don't go away by themselves: who closes for one of these need not be tried again."""


@dataclass(frozen=True)
class Secrets:
    """How to sign in, read from the files that the configuration names."""

    user: str = ""
    password: str = field(default="", repr=False)
    certificate: bool = False
    """Whether TLS shows a certificate of ours, so that EXTERNAL can be asked for."""

    def mechanisms(self) -> list[str]:
        """SASL mechanisms, best first."""
        external = [EXTERNAL] if self.certificate else []
        return [*external, PLAIN if self.user else ANONYMOUS]


class OutwardOwner(Protocol):
    """Who wants the connection."""

    def connected(self, outward: "Outward", now_us: int) -> None:
        """The partner has answered our open: ``outward.binding`` takes sessions and links."""

    def connection_failed(self, outward: "Outward", why: str, lasting: bool, now_us: int) -> None:
        """There is no connection, or no longer; ``lasting``: trying again would be in vain. Said once."""


class Outward:
    """One connection that the broker opens."""

    def __init__(
        self,
        owner: OutwardOwner,
        connection: str,
        credentials: str = "",
        idle_timeout_ms: int = 0,
        failed: str = "",
    ) -> None:
        """``connection`` is ``amqp[s]://host:port``, or several with commas; ``credentials`` names a table of
        the configuration; ``failed`` is the address that didn't do last, behind which to begin.
        """
        addresses = addresses_of(connection)
        first = addresses.index(failed) + 1 if failed in addresses else 0
        self.addresses: Final = addresses[first:] + addresses[:first]
        """To be tried in this order."""
        self.address = self.addresses[0]
        """The one that is being tried, or has answered."""
        self.credentials: Final = credentials
        self.idle_timeout_ms: Final = idle_timeout_ms
        self.secrets = Secrets()
        """Set by who opens the way, before the binding is made."""
        self.binding: ConnectionState | None = None
        self.open = False
        """The partner has answered our open."""
        self.partner = ""
        """Its container id."""
        self.over = False
        self._owner: Final = owner

    @property
    def host(self) -> str:
        """Of the address."""
        host = self.address.partition("://")[2].rpartition(":")[0]
        return host.removeprefix("[").removesuffix("]")

    @property
    def port(self) -> int:
        """Of the address."""
        return int(self.address.rpartition(":")[2])

    @property
    def tls(self) -> bool:
        """Whether the way is TLS; all addresses have one scheme."""
        return self.address.startswith(f"{TLS_SCHEME}://")

    def options(self, config: Config) -> ConnectionOptions:
        """What the engine is to know."""
        limits = config.limits
        return ConnectionOptions(
            server=False,
            container_id=config.container_id,
            hostname=self.host,
            sasl_mechanisms=self.secrets.mechanisms(),
            username=self.secrets.user,
            password=self.secrets.password,
            max_frame_size_bytes=limits.max_frame_bytes,
            max_sessions=limits.max_sessions,
            idle_timeout_ms=self.idle_timeout_ms,
            handshake_timeout_ms=limits.open_timeout_ms,
            max_links=limits.max_links,
            incoming_window_frames=limits.incoming_window_frames,
            max_message_size_bytes=limits.max_message_bytes,
        )

    # For the binding.

    def opened(self, container_id: str, now_us: int) -> None:
        """The partner has answered our open."""
        if not self.over:
            self.open = True
            self.partner = container_id
            self._owner.connected(self, now_us)

    def login_refused(self, code: int, now_us: int) -> None:
        """SASL has ended with ``code``, which is not ok."""
        who = f"user {self.secrets.user!r}" if self.secrets.user else "an anonymous user"
        self.fail(f"{self.address} refuses {who} (SASL code {code})", code != SASL_SYS_TEMP, now_us)

    def closed(self, error: Error | None, now_us: int) -> None:
        """The partner has closed the connection."""
        if error is None:
            self.fail(f"{self.address} has closed the connection", False, now_us)
        else:
            why = f"{self.address} has closed the connection: {error.condition}: {error.description or ''}"
            self.fail(why, error.condition in LASTING, now_us)

    def broken(self, error: Error, now_us: int) -> None:
        """A rule of AMQP was broken, or the partner was silent for too long."""
        lasting = not self.open and error.condition in LASTING
        self.fail(f"connection to {self.address}: {error.description or error.condition}", lasting, now_us)

    def lost(self, now_us: int) -> None:
        """The socket is gone."""
        self.fail(f"the connection to {self.address} was lost", False, now_us)

    # For whoever opens the way, and for whoever wants it no more.

    def fail(self, why: str, lasting: bool, now_us: int) -> None:
        """There is no connection, or no longer. What comes after the first word is not told."""
        if not self.over:
            self.over = True
            self._owner.connection_failed(self, why, lasting, now_us)

    def end(self, cut: bool) -> None:
        """Nobody wants it any more: close it, or ``cut`` the socket without a word."""
        self.over = True
        if self.binding is None:
            return  # whoever opens the way finds it out
        if cut or not self.open:
            self.binding.cut()
        else:
            self.binding.leave()

"""What an application settles before a connection begins: who it is, what it allows, and every bound."""

from dataclasses import dataclass, field
from typing import Final, final

from mypy_extensions import mypyc_attr

from postroom.amqp.frames.sasl import ANONYMOUS

NEVER_US: Final = 0x7FFF_FFFF_FFFF_FFFF
"""A deadline that never comes."""

MAX_SASL_FRAME_BYTES: Final = 16 * 1024
"""The specification says 512; passwords in PLAIN that are tokens are longer."""

MAX_ERROR_DESCRIPTION_CHARS: Final = 160
"""An error's description is cut to this where the peer's frames are too small for the whole of it."""


@mypyc_attr(allow_interpreted_subclasses=True)
class SaslClient:
    """The client's part of a SASL mechanism in which both ends prove that they know a secret."""

    def begin(self, mechanism: str) -> bytes:
        """The initial response. ``mechanism`` is the one that was chosen."""
        raise NotImplementedError

    def respond(self, challenge: bytes) -> bytes:
        """The answer to a challenge of the server. Raises AmqpError where that isn't to be trusted."""
        raise NotImplementedError

    def complete(self, data: bytes | None) -> None:
        """The server takes us; ``data`` came with it. Raises AmqpError where that isn't to be trusted."""
        raise NotImplementedError


@final
@dataclass(kw_only=True)
class ConnectionOptions:
    """One end of a connection, as the application wants it.

    The same class serves both ends; ``server`` says which end waits for the other's protocol header.
    """

    server: bool
    container_id: str
    hostname: str | None = None
    """Client: the virtual host asked for in open and sasl-init."""

    # SASL
    sasl_mechanisms: list[str] = field(default_factory=lambda: [ANONYMOUS])
    """Server: offered. Client: allowed, in order of preference; empty means no SASL layer."""
    sasl_required: bool = False
    """Server: a peer that begins without SASL is sent the SASL header and dropped (part 5, section 5.2)."""
    username: str = ""
    """Client, PLAIN."""
    password: str = ""
    """Client, PLAIN."""
    sasl_client: SaslClient | None = None
    """Client: for mechanisms other than ANONYMOUS, PLAIN and EXTERNAL."""

    # Connection
    max_frame_size_bytes: int = 64 * 1024
    """The largest frame that is accepted from the peer."""
    max_sessions: int = 256
    """Sessions at a time; advertised as channel-max = max_sessions − 1."""
    idle_timeout_ms: int = 60_000
    """The connection is closed when the peer is silent for so long; half of it is advertised (part 2,
    section 2.4.5). 0: never.
    """
    min_peer_idle_timeout_ms: int = 50
    """A peer that wants heartbeats more often than this would need is refused with amqp:not-allowed."""
    handshake_timeout_ms: int = 30_000
    """From the start to the peer's open. 0: no limit."""

    max_pipelined_bytes: int = 256 * 1024
    """Server: what a client may send behind its SASL init before the verdict."""
    max_connection_links: int = 4096
    """Links at a time on all sessions together."""

    # Session
    max_links: int = 1024
    """Links at a time on one session; advertised as handle-max = max_links − 1."""
    incoming_window_frames: int = 2048
    """Transfer frames that the peer may send before the window is renewed (at half)."""
    outgoing_window_frames: int = 2048
    """Advertised only: what bounds sending is the peer's incoming window."""
    max_incoming_unsettled: int = 100_000
    """Unsettled deliveries from the peer on one session; one more ends it with
    amqp:resource-limit-exceeded.
    """
    max_outgoing_unsettled: int = 100_000
    """Our unsettled deliveries on one session; usable_credit() never exceeds what is left of it."""
    max_buffered_bytes: int = 8 * 1024 * 1024
    """Payload kept on one session while the peer's window is shut; above it usable_credit() is 0."""

    max_written_bytes: int = 0
    """Of messages larger than a frame so much is written before ``data_to_send`` has taken it; the rest by
    ``write_on``. 0: all.
    """

    initial_outgoing_id: int = 0
    """First transfer id and delivery id of each session (serials: they wrap at 2³²)."""

    # Link
    max_message_size_bytes: int = 100 * 1024 * 1024
    """Larger messages detach their link with amqp:link:message-size-exceeded. 0: no limit. A link may state
    its own.
    """
    max_link_unsettled: int = 5_000
    """usable_credit() of a sender never exceeds this minus its unsettled deliveries."""
    max_errant_frames: int = 10_000
    """Frames that may still come for a link after it was detached with an error (they can be under way); one
    more ends the session with amqp:session:errant-link.
    """

    @property
    def channel_max(self) -> int:
        return self.max_sessions - 1

    @property
    def handle_max(self) -> int:
        return self.max_links - 1

"""Signing in by SCRAM (RFC 5802, RFC 7677): the password never leaves this end, and the broker proves that it
knows it, too. The library `scramp` speaks the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from postroom.amqp.engine.options import SaslClient
from postroom.amqp.errors import UNAUTHORIZED_ACCESS, AmqpError
from postroom.amqp.frames.sasl import (
    PLAIN,
    PLUS,
    SCRAM_SHA_256,
    SCRAM_SHA_256_PLUS,
    SCRAM_SHA_512,
    SCRAM_SHA_512_PLUS,
    TLS_SERVER_END_POINT,
    XOAUTH2,
    binds_channel,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Collection

    from scramp import ScramClient  # type: ignore[import-untyped]

USER_MECHANISMS: Final = (SCRAM_SHA_512_PLUS, SCRAM_SHA_256_PLUS, SCRAM_SHA_512, SCRAM_SHA_256, PLAIN)
"""How a user with a password signs in, best first; without TLS those with channel binding are left out."""
UNUSED: Final = b"-"
"""In the place of a binding, where it is only said that there could be one."""
EXPLANATIONS: Final = {
    "channel-bindings-dont-match": "it has shown another certificate than the one that has come here",
    "server-does-support-channel-binding": "it has offered channel binding, and the offer has not come here",
}
"""Of RFC 5802's errors those that say that somebody is between."""


class ScramSignIn(SaslClient):
    """One connection's part; does nothing where the broker and the client choose another mechanism."""

    def __init__(self, user: str, password: str, mechanisms: Collection[str] = ()) -> None:
        """``mechanisms`` are those that the client may choose."""
        self._user: Final = user
        self._password: Final = password
        self._mechanisms: Final = mechanisms
        self._tls: ssl.SSLObject | None = None
        self._client: ScramClient | None = None
        self._proved = False

    def connected(self, tls: ssl.SSLObject | None) -> None:
        """The connection is there, with TLS or without."""
        self._tls = tls

    def begin(self, mechanism: str) -> bytes:
        from scramp import ScramClient, ScramException  # who signs in otherwise starts sooner

        try:
            self._client = ScramClient([mechanism], self._user, self._password, self._binding(mechanism))
        except ScramException as error:  # of a certificate, for instance, that nothing can be bound to
            raise _refused(f"{mechanism} can't be begun: {error}") from error
        message: str = self._client.get_client_first()
        return message.encode()

    def _binding(self, mechanism: str) -> tuple[str, ssl.SSLObject | bytes] | None:
        """What the mechanism is bound to. Where it isn't, and would be had the broker offered that, it says
        so: a broker that did knows then that its offer hasn't arrived.
        """
        if self._tls is None:
            return None
        if binds_channel(mechanism):
            return TLS_SERVER_END_POINT, self._tls
        return (TLS_SERVER_END_POINT, UNUSED) if mechanism + PLUS in self._mechanisms else None

    def respond(self, challenge: bytes) -> bytes:
        """The proof for the broker's first message; nothing for its last, if that comes as a challenge."""
        from scramp import ScramException

        if self._client is None:
            raise _refused("the broker asks for more than the mechanism has")
        try:
            text = challenge.decode()
            if text.startswith("e="):
                code = text.removeprefix("e=").partition(",")[0]
                raise _refused(f"the broker refuses: {EXPLANATIONS.get(code, code)}")
            if text.startswith("v="):
                self._client.set_server_final(text)
                self._proved = True
                return b""
            self._client.set_server_first(text)
            message: str = self._client.get_client_final()
            return message.encode()
        except (ScramException, UnicodeDecodeError) as error:
            raise _refused(f"SCRAM with the broker failed: {error}") from error

    def complete(self, data: bytes | None) -> None:
        if self._client is None or self._proved:
            return
        if data is None:
            raise _refused("the broker hasn't shown that it knows the password")
        self.respond(data)
        if not self._proved:
            raise _refused("the broker hasn't shown that it knows the password")


class TokenSignIn(SaslClient):
    """One connection's part in OAUTHBEARER (RFC 7628) or XOAUTH2."""

    def __init__(self, user: str, token: str, host: str) -> None:
        """``user`` may be "": the token has it."""
        self._user: Final = user
        self._token: Final = token
        self._host: Final = host

    def begin(self, mechanism: str) -> bytes:
        if mechanism == XOAUTH2:
            return f"user={self._user}\x01auth=Bearer {self._token}\x01\x01".encode()
        name = self._user.replace("=", "=3D").replace(",", "=2C")
        head = f"n,a={name}," if name else "n,,"
        return f"{head}\x01host={self._host}\x01auth=Bearer {self._token}\x01\x01".encode()

    def respond(self, challenge: bytes) -> bytes:
        """The broker has said why it refuses; the outcome follows."""
        return b"\x01"

    def complete(self, data: bytes | None) -> None:
        """Nothing is left to be shown."""


def _refused(why: str) -> AmqpError:
    return AmqpError(UNAUTHORIZED_ACCESS, why)

"""Signing in by SCRAM (RFC 5802, RFC 7677): the password never leaves this end, and the broker proves that it
knows it, too. The library `scramp` speaks the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from postroom.amqp.engine.options import SaslClient
from postroom.amqp.errors import UNAUTHORIZED_ACCESS, AmqpError
from postroom.amqp.frames.sasl import PLAIN, SCRAM_SHA_256, SCRAM_SHA_512

if TYPE_CHECKING:
    from scramp import ScramClient  # type: ignore[import-untyped]

USER_MECHANISMS: Final = (SCRAM_SHA_512, SCRAM_SHA_256, PLAIN)
"""How a user with a password signs in, best first."""


class ScramSignIn(SaslClient):
    """One connection's part; does nothing where the broker and the client choose another mechanism."""

    def __init__(self, user: str, password: str) -> None:
        self._user: Final = user
        self._password: Final = password
        self._client: ScramClient | None = None
        self._proved = False

    def begin(self, mechanism: str) -> bytes:
        from scramp import ScramClient  # who signs in otherwise starts sooner

        self._client = ScramClient([mechanism], self._user, self._password)
        message: str = self._client.get_client_first()
        return message.encode()

    def respond(self, challenge: bytes) -> bytes:
        """The proof for the broker's first message; nothing for its last, if that comes as a challenge."""
        from scramp import ScramException

        if self._client is None:
            raise _refused("the broker asks for more than the mechanism has")
        try:
            text = challenge.decode()
            if text.startswith(("v=", "e=")):
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


def _refused(why: str) -> AmqpError:
    return AmqpError(UNAUTHORIZED_ACCESS, why)

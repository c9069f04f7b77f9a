"""A peer that speaks AMQP's bytes over TLS, with a certificate of its own or without."""

import socket
import ssl
from typing import Self

from librt.strings import BytesWriter
from scramp import ScramClient  # type: ignore[import-untyped]

from postroom.amqp.frames.frames import SASL_HEADER, FrameDecoder, write_sasl_frame
from postroom.amqp.frames.sasl import (
    MAX_SASL_FRAME_BYTES,
    SaslChallenge,
    SaslFrame,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)

TIMEOUT_S = 15.0


def sasl(mechanism: str, response: bytes | None) -> bytes:
    """The SASL header, and the choice of a mechanism."""
    writer = BytesWriter()
    writer.write(SASL_HEADER)
    write_sasl_frame(writer, SaslInit(mechanism, response))
    return writer.getvalue()


def sasl_response(response: bytes) -> bytes:
    """The answer to a challenge."""
    writer = BytesWriter()
    write_sasl_frame(writer, SaslResponse(response))
    return writer.getvalue()


class TlsPeer:
    """Sends what it is given, and reads SASL frames."""

    def __init__(self, port: int, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> None:
        """``session``: of TLS, to be gone on with."""
        plain = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        try:
            self.socket = context.wrap_socket(plain, server_hostname="localhost", session=session)
        except OSError:
            plain.close()
            raise
        self._decoder = FrameDecoder(MAX_SASL_FRAME_BYTES)
        self._has_header = False
        self._frames: list[SaslFrame] = []
        self._challenges = 0
        self._seen = 0
        """Frames that there were when the last challenge was taken."""

    def send(self, data: bytes) -> Self:
        self.socket.sendall(data)
        return self

    def mechanisms(self) -> list[str]:
        """What the broker has offered."""
        return next(each.sasl_server_mechanisms for each in self._frames if isinstance(each, SaslMechanisms))

    def outcome(self) -> int:
        """The code of the broker's verdict."""
        while True:
            for each in self._frames:
                if isinstance(each, SaslOutcome):
                    return each.code
            self._read()

    def challenge(self) -> bytes:
        """The broker's next challenge."""
        while True:
            challenges = [each.challenge for each in self._frames if isinstance(each, SaslChallenge)]
            if len(challenges) > self._challenges:
                self._challenges += 1
                self._seen = len(self._frames)
                return challenges[self._challenges - 1]
            assert not any(isinstance(each, SaslOutcome) for each in self._frames), "there is an outcome"
            self._read()

    def explanation(self) -> bytes:
        """What the broker says before its verdict, if it does."""
        while len(self._frames) == self._seen:
            self._read()
        return b"" if isinstance(self._frames[-1], SaslOutcome) else self.challenge()

    def _read(self) -> None:
        self._decoder.feed(self.more())
        if not self._has_header:
            self._has_header = self._decoder.read_protocol_header() >= 0
        while self._has_header and self._decoder.next():
            self._frames.append(self._decoder.sasl_body())

    def more(self) -> bytes:
        """What comes next."""
        data = self.socket.recv(4096)
        assert data, "the broker has closed"
        return data

    def session(self) -> ssl.SSLSession | None:
        """That of TLS, with which another connection may go on."""
        return self.socket.session

    def close(self) -> None:
        """Lose the connection without a word."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def scram_outcome(peer: TlsPeer, client: ScramClient) -> tuple[bytes, int]:
    """Sign in by SCRAM; what the broker says in the place of its proof, and its verdict."""
    peer.send(sasl(client.mechanism_name, client.get_client_first().encode()))
    client.set_server_first(peer.challenge().decode())
    peer.send(sasl_response(client.get_client_final().encode()))
    explanation = peer.explanation()
    if explanation:
        peer.send(sasl_response(b""))
    return explanation, peer.outcome()

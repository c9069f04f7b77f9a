"""SASL mechanisms that take more than one message from the client (RFC 4422): challenges and responses."""

from __future__ import annotations

import pytest

from postroom.amqp import errors
from postroom.amqp.engine.connection import Connection
from postroom.amqp.engine.events import ProtocolFailed, SaslDone, SaslInitReceived, SaslResponseReceived
from postroom.amqp.engine.options import SaslClient
from postroom.amqp.engine.violations import UsageError
from postroom.amqp.errors import UNAUTHORIZED_ACCESS, AmqpError
from postroom.amqp.frames.frames import SASL_HEADER
from postroom.amqp.frames.sasl import SaslInit, SaslResponse
from tests.amqp.engine.engine_pair import Pair, client_options, only, server_options
from tests.amqp.engine.test_open import sasl

MECHANISM = "SCRAM-SHA-256"


class Echo(SaslClient):
    """Answers what it is asked, backwards."""

    def __init__(self, trusted: bytes | None = b"bye") -> None:
        self.trusted = trusted

    def begin(self, mechanism: str) -> bytes:
        return mechanism.lower().encode()

    def respond(self, challenge: bytes) -> bytes:
        return challenge[::-1]

    def complete(self, data: bytes | None) -> None:
        if data != self.trusted:
            raise AmqpError(UNAUTHORIZED_ACCESS, f"the server says {data!r}")


def pair_of(client: SaslClient | None) -> Pair:
    return Pair(
        client_options(sasl_mechanisms=[MECHANISM], sasl_client=client),
        server_options(sasl_mechanisms=[MECHANISM]),
        by_hand=True,
    )


def test_the_application_asks_until_it_knows_enough() -> None:
    pair = pair_of(Echo())
    pair.client.open()
    pair.pump()
    assert only(pair.server_events, SaslInitReceived).response == b"scram-sha-256"
    for challenge in (b"abc", b"", b"de"):
        pair.server_events.clear()
        assert pair.server.sasl_challenge(challenge) == []
        with pytest.raises(UsageError, match="no client waits"):
            pair.server.sasl_accept()
        pair.pump()
        assert only(pair.server_events, SaslResponseReceived).response == challenge[::-1]
    pair.server.sasl_accept(b"bye")
    pair.pump()
    assert only(pair.client_events, SaslDone).ok
    assert pair.server.peer_open is not None


def test_a_client_that_begins_without_a_response_is_asked_for_it() -> None:
    server = Connection(server_options(sasl_mechanisms=[MECHANISM]), 0)
    assert server.receive_data(SASL_HEADER + sasl(SaslInit(MECHANISM)), 0) == []
    (event,) = server.receive_data(sasl(SaslResponse(b"first")), 0)
    assert isinstance(event, SaslInitReceived)
    assert event.response == b"first"


def test_a_server_that_doesnt_prove_itself_is_left() -> None:
    pair = pair_of(Echo())
    pair.client.open()
    pair.pump()
    pair.server.sasl_accept(b"mallory")
    pair.pump()
    failed = only(pair.client_events, ProtocolFailed)
    assert (failed.error.condition, failed.error.description) == (
        errors.UNAUTHORIZED_ACCESS,
        "the server says b'mallory'",
    )
    assert pair.server.peer_open is None, "nothing was sent to it"


def test_a_challenge_where_the_mechanism_has_none_ends_the_connection() -> None:
    pair = Pair(
        client_options(sasl_mechanisms=["ANONYMOUS"]),
        server_options(sasl_mechanisms=["ANONYMOUS"]),
        by_hand=True,
    )
    pair.client.open()
    pair.pump()
    pair.server.sasl_challenge(b"who are you?")
    pair.pump()
    assert "ANONYMOUS has no more to say" in str(only(pair.client_events, ProtocolFailed).error.description)

"""SASL frame bodies and mechanisms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from postroom.amqp.encoding.codec import encode
from postroom.amqp.encoding.reader import Reader
from postroom.amqp.encoding.types import Described, Symbol, UByte, ULong
from postroom.amqp.errors import DecodeError
from postroom.amqp.frames.sasl import (
    SASL_AUTH,
    SASL_OK,
    PlainCredentials,
    SaslChallenge,
    SaslFrame,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    parse_anonymous,
    parse_plain,
    plain_response,
    read_sasl,
)
from tests.amqp.strategies import ascii_texts, binaries, texts

frames = st.one_of(
    st.builds(SaslMechanisms, st.lists(ascii_texts, min_size=1, max_size=3)),
    st.builds(SaslInit, ascii_texts, st.none() | binaries, st.none() | texts),
    st.builds(SaslChallenge, binaries),
    st.builds(SaslResponse, binaries),
    st.builds(SaslOutcome, st.integers(0, 4), st.none() | binaries),
)


def read(data: bytes) -> SaslFrame:
    return read_sasl(Reader(data, 0, len(data)))


@given(frames)
def test_every_frame_comes_back(sent: SaslFrame) -> None:
    w = BytesWriter()
    sent.write(w)
    assert read(w.getvalue()) == sent


@pytest.mark.parametrize(
    ("sent", "encoded"),
    [
        (SaslMechanisms(["PLAIN"]), "005340c00801a305504c41494e"),
        (SaslMechanisms(["PLAIN", "A"]), "005340c00d01e00a02a305504c41494e0141"),
        (SaslInit("PLAIN", b"\0u\0p"), "005341c00e02a305504c41494ea00400750070"),
        (SaslOutcome(SASL_OK), "005344c003015000"),
        (SaslOutcome(SASL_AUTH), "005344c003015001"),
    ],
)
def test_bytes_on_the_wire(sent: SaslFrame, encoded: str) -> None:
    w = BytesWriter()
    sent.write(w)
    assert w.getvalue().hex() == encoded


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        (encode(Described(ULong(0x40), [])), "mandatory field sasl-server-mechanisms is absent"),
        (encode(Described(ULong(0x41), [])), "mandatory field mechanism is absent"),
        (encode(Described(ULong(0x41), ["PLAIN"])), "mechanism: symbol expected"),
        (encode(Described(ULong(0x42), [])), "mandatory field challenge is absent"),
        (encode(Described(ULong(0x43), [Symbol("x")])), "response: binary expected"),
        (encode(Described(ULong(0x44), [UByte(5)])), "code is 5, at most 4 is defined"),
        (encode(Described(ULong(0x10), ["c"])), "descriptor 0x10 is not that of a SASL frame"),
        (b"", "a byte wanted"),
    ],
)
def test_malformed_frames_are_refused(encoded: bytes, text: str) -> None:
    with pytest.raises(DecodeError, match=text):
        read(encoded)


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@given(names, names, names | st.just(""))
def test_plain_comes_back(user: str, password: str, authzid: str) -> None:
    assert parse_plain(plain_response(user, password, authzid)) == PlainCredentials(authzid, user, password)


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (b"", "2 NUL bytes, not 0"),
        (b"user\0secret", "2 NUL bytes, not 1"),
        (b"\0user\0secret\0", "2 NUL bytes, not 3"),
        (b"\0\0secret", "without a user name or without a password"),
        (b"\0user\0", "without a user name or without a password"),
        (b"\0user\0\xffsecret", "not UTF-8"),
    ],
)
def test_malformed_plain_is_refused_without_quoting_it(response: bytes, text: str) -> None:
    with pytest.raises(DecodeError, match=text) as caught:
        parse_plain(response)
    assert "secret" not in str(caught.value)


def test_a_password_is_not_shown() -> None:
    assert "hidden" not in repr(parse_plain(plain_response("user", "hidden")))


def test_anonymous_takes_a_trace_or_none() -> None:
    assert parse_anonymous(None) == ""
    assert parse_anonymous(b"me@example.org") == "me@example.org"
    with pytest.raises(DecodeError, match="not UTF-8"):
        parse_anonymous(b"\xff")

"""Tokens: which are good, what attackers try, and signing in with them over sockets."""

import base64
import hmac
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from postroom.amqp.frames.frames import SASL_HEADER, write_sasl_frame
from postroom.amqp.frames.sasl import SASL_AUTH, SaslChallenge, SaslInit, SaslOutcome, SaslResponse
from postroom.client import Connection, ConnectionFactory
from postroom.client.exceptions import JMSException, JMSSecurityException
from postroom.server.access.oauth import KeysUnavailable, TokenRefused, VerifiedToken, load_keys
from postroom.server.access.token_verifier import MAX_TOKEN_CHARS, TokenVerifier
from postroom.server.configuration.config import Config, ListenConfig
from postroom.server.configuration.passwords import MIN_ITERATIONS, hash_password
from postroom.server.configuration.roles import RoleConfig
from postroom.server.connection.token_sign_in import INVALID_TOKEN, TokenSignIns, bearer_token
from postroom.server.exits import StartError
from tests.server.access.tokens import (
    AUDIENCE,
    EC_KEY,
    ED_KEY,
    OTHER_RSA_KEY,
    RSA_KEY,
    SMALL_RSA_KEY,
    jwks,
    oauth_config,
    token,
    write_jwks,
)
from tests.server.harness import BrokerThread, make_config
from tests.server.peers import RawPeer

S = 1_000_000


@pytest.fixture(scope="module")
def verifier() -> TokenVerifier:
    made = TokenVerifier(oauth_config("unused"))
    made.replace_keys(jwks())
    return made


@pytest.mark.parametrize(
    ("key", "algorithm", "key_id"),
    [(RSA_KEY, "RS256", "rsa"), (RSA_KEY, "PS256", "rsa"), (EC_KEY, "ES256", "ec"), (ED_KEY, "EdDSA", "ed")],
)
def test_a_good_token(verifier: TokenVerifier, key: Any, algorithm: str, key_id: str) -> None:
    exp = int(time.time()) + 100
    found = verifier.verify(token("ann", key, algorithm, {"kid": key_id}, exp=exp, roles="a b a"))
    assert found == VerifiedToken("ann", ("a", "b"), (exp + 30) * S)


@pytest.mark.parametrize(("roles", "found"), [(["a", 1, "b c"], ("a", "b c")), ({"a": 1}, ()), (None, ())])
def test_roles(verifier: TokenVerifier, roles: object, found: tuple[str, ...]) -> None:
    assert verifier.verify(token(roles=roles)).roles == found


def test_without_a_claim_of_roles_a_token_gives_none() -> None:
    verifier = TokenVerifier(oauth_config("unused", roles_claim="", user_claim="email"))
    verifier.replace_keys(jwks())
    assert verifier.verify(token(email="ann@bank", roles=["administrator"])).roles == ()
    assert verifier.verify(token(email="ann@bank")).user == "ann@bank"


def test_a_token_that_names_no_key_is_by_the_only_one() -> None:
    verifier = TokenVerifier(oauth_config("unused"))
    verifier.replace_keys(jwks()[:1])
    assert verifier.verify(token(headers={})).user == "ann"
    verifier.replace_keys(jwks())
    with pytest.raises(TokenRefused, match="several"):
        verifier.verify(token(headers={}))


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def unsigned(algorithm: str) -> str:
    _, claims, _ = token().split(".")
    return f"{_part({'alg': algorithm, 'kid': 'rsa', 'typ': 'JWT'})}.{claims}."


def by_hmac_with_the_public_key() -> str:
    secret = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    _, claims, _ = token().split(".")
    text = f"{_part({'alg': 'HS256', 'kid': 'rsa'})}.{claims}"
    mac = base64.urlsafe_b64encode(hmac.digest(secret, text.encode(), "sha256")).rstrip(b"=")
    return f"{text}.{mac.decode()}"


def with_other_claims() -> str:
    head, _, signature = token().split(".")
    _, claims, _ = token("root").split(".")
    return f"{head}.{claims}.{signature}"


NOW_S = int(time.time())
HOURS_S = 36_000
"""A run of all tests takes less, from the time it is collected."""
ATTACKS = {
    "alg none": unsigned("none"),
    "alg None": unsigned("None"),
    "no signature": unsigned("RS256"),
    "HMAC with the public key": by_hmac_with_the_public_key(),
    "another key": token(key=OTHER_RSA_KEY),
    "another key's id": token(headers={"kid": "ec"}),
    "a key too small": token(key=SMALL_RSA_KEY, headers={"kid": "small"}),
    "an algorithm that isn't allowed": token(algorithm="RS512"),
    "another user's claims": with_other_claims(),
    "a key id that is a path": token(headers={"kid": "../../../etc/passwd"}),
    "a key id that is a URL": token(headers={"kid": "https://evil.example/jwks"}),
    "a key of its own": token(key=OTHER_RSA_KEY, headers={"jwk": jwks()[0], "jku": "https://evil.example"}),
    "expired": token(exp=NOW_S - 100),
    "not yet valid": token(nbf=NOW_S + HOURS_S),
    "from the future": token(iat=NOW_S + HOURS_S),
    "for another audience": token(aud="another"),
    "of another issuer": token(iss="https://evil.example"),
    "of an issuer that begins so": token(iss="https://login.example.evil.example"),
    **{f"without {claim}": token(without=claim) for claim in ("exp", "aud", "iss", "sub")},
    "a user that is no text": token(headers={"kid": "rsa"}, sub=["ann"]),
    "an empty user": token(""),
    "a user with a line end": token("ann\nroot"),
    "a user that is too long": token("a" * 256),
    "nobody": token("anonymous"),
    "oversized": token(pad="x" * MAX_TOKEN_CHARS),
    "nothing": "",
    "no token": "a.b.c",
    "brackets": f"{base64.urlsafe_b64encode(b'[' * 2000).decode()}.e30.",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks(verifier: TokenVerifier, attack: str) -> None:
    with pytest.raises(TokenRefused) as caught:
        verifier.verify(ATTACKS[attack])
    assert "\n" not in str(caught.value)


@given(st.text(max_size=60))
def test_what_is_no_token_is_refused(text: str) -> None:
    verifier = TokenVerifier(oauth_config("unused"))
    verifier.replace_keys(jwks())
    with pytest.raises(TokenRefused):
        verifier.verify(text)


# The SASL mechanisms.


@pytest.mark.parametrize(
    ("response", "user"),
    [
        (b"n,a=a=2Cb=3D,\x01host=h\x01port=1\x01auth=Bearer abc\x01\x01", "a,b="),
        (b"n,,\x01auth=bearer abc\x01\x01", ""),
        (b"user=ann\x01auth=Bearer abc\x01\x01", "ann"),
    ],
)
def test_responses(response: bytes, user: str) -> None:
    assert bearer_token(response) == ("abc", user)


@given(st.one_of(st.binary(max_size=40), st.binary(max_size=20).map(lambda more: b"n,,\x01auth=" + more)))
def test_a_malformed_response_is_refused(response: bytes) -> None:
    try:
        bearer_token(response)
    except TokenRefused:
        return
    assert response.endswith(b"\x01\x01")


# Keys.


def test_keys_that_are_no_public_ones_are_left_out(tmp_path: Path) -> None:
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"}
    encrypting = {**jwks()[0], "use": "enc"}
    file = write_jwks(tmp_path / "keys", [secret, encrypting, *jwks()])
    assert [key["kid"] for key in load_keys(str(file))] == ["rsa", "small", "ec", "ed"]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"keys": []}', '{"keys": [1]}', '{"keys": {}}'])
def test_a_file_of_keys_that_is_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(KeysUnavailable, match="keys"):
        load_keys(str(file))
    with pytest.raises(StartError, match=r"oauth\.jwks"):
        TokenSignIns(oauth_config(file))
    with pytest.raises(KeysUnavailable):
        load_keys(str(tmp_path / "missing"))


class Fetching:
    """Keys of a URL, with a clock; what tokens were decided to be."""

    def __init__(self) -> None:
        self.tokens = TokenSignIns(oauth_config("https://login.example/keys", jwks_cache_s=300))
        self.now_us = 1000 * S
        self.decided: list[str] = []

    def sign_in(self, text: str) -> None:
        def decided(found: VerifiedToken | TokenRefused, now_us: int) -> None:
            self.decided.append(found.user if isinstance(found, VerifiedToken) else str(found))

        self.tokens.begin(b"n,,\x01auth=Bearer " + text.encode() + b"\x01\x01", decided, self.now_us)

    def fetch(self, keys: list[dict[str, Any]] | Exception) -> None:
        assert self.tokens.waiting
        self.tokens.begin_fetch(self.now_us)
        self.tokens.fetched(keys, self.now_us)


def test_keys_are_fetched_when_they_are_wanted_and_kept() -> None:
    world = Fetching()
    world.sign_in(token("ann"))
    assert world.decided == []
    world.fetch(jwks())
    world.sign_in(token("bob"))
    assert world.decided == ["ann", "bob"], "the second without a fetch"


def test_old_keys_are_fetched_again_and_count_on_when_that_fails() -> None:
    world = Fetching()
    world.sign_in(token("ann"))
    world.fetch(jwks())
    world.now_us += 300 * S
    world.sign_in(token("bob"))
    world.fetch(KeysUnavailable("down"))
    world.sign_in(token("eve"))
    assert world.decided == ["ann", "bob", "eve"], "and not again at once"


def test_a_new_key_is_fetched_and_unknown_ones_not_again_and_again() -> None:
    world = Fetching()
    world.sign_in(token("ann"))
    world.fetch(jwks()[1:])
    assert "no such key" in world.decided[0]
    world.sign_in(token("ann"))
    assert len(world.decided) == 2
    world.now_us += 10 * S
    world.sign_in(token("ann"))
    world.fetch(jwks())
    assert world.decided[2:] == ["ann"]


def test_keys_that_come_late_are_not_those_of_another_server() -> None:
    """The configuration is read anew while keys are fetched."""
    world = Fetching()
    world.sign_in(token("ann"))
    world.tokens.begin_fetch(world.now_us)
    world.tokens.configure(oauth_config("https://other.example/keys"))
    world.tokens.fetched(jwks(), world.now_us)
    assert "no such key" in world.decided[0]
    world.sign_in(token("ann"))
    world.fetch(jwks())
    assert world.decided[1:] == ["ann"]


def test_keys_that_are_there_count_on_when_the_configuration_is_read_anew() -> None:
    world = Fetching()
    world.sign_in(token("ann"))
    world.fetch(jwks())
    world.tokens.configure(oauth_config("https://login.example/keys", leeway_s=5))
    world.sign_in(token("bob"))
    assert world.decided == ["ann", "bob"]
    world.tokens.configure(None)
    world.sign_in(token("eve"))
    assert "taken no more" in world.decided[2]


@pytest.mark.parametrize(
    "source", ["http://login.example/keys", "ftp://login.example/keys", "file:///etc/keys"]
)
def test_keys_come_by_https(source: str) -> None:
    with pytest.raises(ValueError, match="https"):
        oauth_config(source)


# Over sockets.

BOB = {"bob": hash_password("sesame", iterations=MIN_ITERATIONS)}


def config(folder: Path) -> Config:
    return make_config(
        queues=("orders", "replies"),
        listen=[ListenConfig(address="127.0.0.1:0", anonymous=False)],
        users=BOB,
        role=[
            RoleConfig(name="administrator", members=["bob"]),
            RoleConfig(name="sender", grants=["put on orders"]),
            RoleConfig(name="reader", grants=["get on orders"], members=["ann"]),
        ],
        oauth=oauth_config(write_jwks(folder / "jwks.json")),
    )


@pytest.fixture(scope="module")
def oauth_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(config(tmp_path_factory.mktemp("oauth"))) as running:
        yield running


def our_connection(
    broker: BrokerThread, text: str, mechanism: str = "OAUTHBEARER", user: str = ""
) -> Connection:
    url = broker.url.replace("//", f"//{user}:{text}@")
    return ConnectionFactory(f"{url}?amqp.saslMechanisms={mechanism}").create_connection()


@pytest.mark.sockets
@pytest.mark.parametrize("mechanism", ["OAUTHBEARER", "XOAUTH2"])
def test_rights_are_those_of_the_token_and_of_the_name(oauth_broker: BrokerThread, mechanism: str) -> None:
    made = token("ann", roles=["sender", "unknown", "bob"])
    with our_connection(oauth_broker, made, mechanism) as connection:
        session = connection.create_session()
        session.create_producer("orders").send("a")
        consumer = session.create_consumer("orders")
        connection.start()
        assert consumer.receive(15) is not None, "ann is a reader by name"
        with pytest.raises(JMSSecurityException, match="'ann' has no right 'put' on 'replies'"):
            session.create_producer("replies")
    with (
        our_connection(oauth_broker, token("ann"), mechanism) as connection,
        pytest.raises(JMSSecurityException, match="no right 'put' on 'orders'"),
    ):
        connection.create_session().create_producer("orders")


@pytest.mark.sockets
@pytest.mark.parametrize("mechanism", ["OAUTHBEARER", "XOAUTH2"])
def test_a_bad_token_lets_nobody_in(oauth_broker: BrokerThread, mechanism: str) -> None:
    for text in (token(key=OTHER_RSA_KEY), token(aud="another")):
        with pytest.raises(JMSException):
            our_connection(oauth_broker, text, mechanism)
    with pytest.raises(JMSException):
        our_connection(oauth_broker, token("ann"), mechanism, user="root")


@pytest.mark.sockets
def test_management_goes_by_the_roles_of_the_token(oauth_broker: BrokerThread) -> None:
    for roles, names in (([], []), (["administrator"], ["orders"])):
        with our_connection(oauth_broker, token("mary", roles=roles)) as connection:
            rows = connection.create_management().query("postroom.queue", ["name"])
            assert [row["name"] for row in rows if row["name"] == "orders"] == names


@contextmanager
def key_server(status: int) -> Iterator[str]:
    """The URL of a key set, which is answered so."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/keys" else 200)
            self.send_header("location", "/elsewhere")
            self.end_headers()
            self.wfile.write(json.dumps({"keys": jwks()}).encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/keys"
        server.shutdown()
        thread.join()


@pytest.mark.sockets
@pytest.mark.parametrize(("status", "is_let_in"), [(200, True), (302, False), (500, False)])
def test_keys_of_a_url(tmp_path: Path, status: int, is_let_in: bool) -> None:
    with key_server(status) as url:
        made = msgspec.structs.replace(config(tmp_path), oauth=oauth_config(url))
        with BrokerThread(made) as broker:
            if is_let_in:
                our_connection(broker, token("ann")).close()
            else:
                with pytest.raises(JMSSecurityException):
                    our_connection(broker, token("ann"))


@pytest.mark.sockets
def test_a_locked_user_is_not_let_in_by_a_token(oauth_broker: BrokerThread) -> None:
    with our_connection(oauth_broker, token("mary", roles=["administrator"])) as connection:
        node = connection.create_management()
        node.create("postroom.user", "zoe", {"locked": True})
        with pytest.raises(JMSSecurityException):
            our_connection(oauth_broker, token("zoe", roles=["administrator"]))
        node.update("postroom.user", "zoe", {"locked": False})
        with our_connection(oauth_broker, token("zoe")):
            node.update("postroom.user", "zoe", {"locked": True})
            oauth_broker.wait_until(lambda broker: all(each.user != "zoe" for each in broker.connections))


@pytest.mark.sockets
def test_a_role_is_no_user(oauth_broker: BrokerThread) -> None:
    with pytest.raises(JMSException):
        our_connection(oauth_broker, token("sender"))


@pytest.mark.sockets
def test_the_answer_to_a_bad_token_is_that_of_rfc_7628(oauth_broker: BrokerThread) -> None:
    first, second, challenge, outcome = BytesWriter(), BytesWriter(), BytesWriter(), BytesWriter()
    first.write(SASL_HEADER)
    write_sasl_frame(first, SaslInit("OAUTHBEARER", b"n,,\x01auth=Bearer a.b.c\x01\x01"))
    write_sasl_frame(second, SaslResponse(b"\x01"))
    write_sasl_frame(challenge, SaslChallenge(INVALID_TOKEN))
    write_sasl_frame(outcome, SaslOutcome(SASL_AUTH))
    peer = RawPeer(oauth_broker.port).send(first.getvalue())
    while challenge.getvalue() not in peer.received:
        peer.more()
    assert peer.send(second.getvalue()).read_to_the_end().endswith(outcome.getvalue())


@pytest.mark.sockets
def test_a_connection_ends_with_its_token(oauth_broker: BrokerThread) -> None:
    with our_connection(oauth_broker, token("ann")) as connection:
        failures: list[Exception] = []
        connection.set_exception_listener(failures.append)
        session = connection.create_session()
        oauth_broker.turn(lambda b, now_us: b.tokens.on_time(now_us + 3000 * S))
        session.create_consumer("orders")
        oauth_broker.turn(lambda b, now_us: b.tokens.on_time(now_us + 4000 * S))
        oauth_broker.wait_until(lambda b: not b.connections)
        with pytest.raises(JMSException, match="token of user 'ann' has expired"):
            session.create_consumer("orders")


def test_tokens_are_offered_where_nobody_else_reads_them() -> None:
    def offered(**settings: Any) -> list[str]:
        return ListenConfig(**settings).sasl_mechanisms({}, True)

    assert {"OAUTHBEARER", "XOAUTH2"} <= set(offered(address="127.0.0.1:0"))
    assert {"OAUTHBEARER", "XOAUTH2"} <= set(offered(address="0.0.0.0:0", tls_certificate="cert.pem"))
    assert not {"OAUTHBEARER", "XOAUTH2"} & set(offered(address="0.0.0.0:0"))
    with pytest.raises(ValueError, match="in clear"):
        Config(
            listen=[ListenConfig(address="0.0.0.0:0", mechanisms=["XOAUTH2"])],
            oauth=oauth_config("keys", audience=AUDIENCE),
        )
    with pytest.raises(ValueError, match=r"needs \[oauth\]"):
        Config(listen=[ListenConfig(address="127.0.0.1:0", mechanisms=["XOAUTH2"])])

"""SCRAM without sockets: both ends, other people's vectors, and what attackers try."""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postroom.amqp.errors import AmqpError
from postroom.client.connection.sign_in import ScramSignIn as ClientSignIn
from postroom.server.configuration.passwords import (
    MIN_ITERATIONS,
    SCRAM_MECHANISMS,
    PasswordHashError,
    hash_password,
    verify_password,
)
from postroom.server.connection import failed_sign_ins
from postroom.server.connection.sign_in import Login, ScramSignIn, SignInRefused, SignIns, Verifiers
from tests.sampling import examples

RFC_7677 = (
    "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:"
    "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
)
"""What a server keeps of the password "pencil", computed from section 3 of RFC 7677."""
CHEAP = {
    mechanism: hash_password("sesame", mechanism, iterations=MIN_ITERATIONS) for mechanism in SCRAM_MECHANISMS
}
USERS = {"ann": tuple(CHEAP.values())}

each_mechanism = pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)


def sign_in(client: ClientSignIn, server: ScramSignIn) -> bytes:
    """Returns the server's last message."""
    challenge = server.challenge(client.begin(server.mechanism))
    return server.finish(client.respond(challenge))


@each_mechanism
def test_both_prove_that_they_know_the_password(mechanism: str) -> None:
    client, server = ClientSignIn("ann", "sesame"), ScramSignIn(mechanism, Verifiers(USERS))
    client.complete(sign_in(client, server))
    assert server.user == "ann"


def test_the_servers_last_message_may_come_as_a_challenge() -> None:
    client, server = ClientSignIn("ann", "sesame"), ScramSignIn("SCRAM-SHA-256", Verifiers(USERS))
    assert client.respond(sign_in(client, server)) == b""
    client.complete(None)


def test_the_password_of_rfc_7677() -> None:
    client, server = (
        ClientSignIn("user", "pencil"),
        ScramSignIn("SCRAM-SHA-256", Verifiers({"user": (RFC_7677,)})),
    )
    client.complete(sign_in(client, server))


@settings(max_examples=examples(25))
@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_any_password_opens_and_no_other(password: str, other: str) -> None:
    try:
        users = {"ann": (hash_password(password, iterations=MIN_ITERATIONS),)}
    except PasswordHashError:
        return  # SASLprep allows none of these
    verifiers = Verifiers(users)
    client = ClientSignIn("ann", password)
    client.complete(sign_in(client, ScramSignIn("SCRAM-SHA-256", verifiers)))
    try:
        hashed = hash_password(other, iterations=MIN_ITERATIONS)
    except PasswordHashError:
        return
    if not verify_password(password, hashed):
        with pytest.raises(SignInRefused):
            sign_in(ClientSignIn("ann", other), ScramSignIn("SCRAM-SHA-256", verifiers))


@each_mechanism
@pytest.mark.parametrize(("user", "password"), [("ann", "Sesame"), ("bob", "sesame"), ("ann ", "sesame")])
def test_a_wrong_user_or_password_is_refused(mechanism: str, user: str, password: str) -> None:
    with pytest.raises(SignInRefused):
        sign_in(ClientSignIn(user, password), ScramSignIn(mechanism, Verifiers(USERS)))


@each_mechanism
def test_a_name_that_doesnt_exist_looks_like_one_that_does(mechanism: str) -> None:
    def salt_and_iterations(user: str, verifiers: Verifiers) -> list[str]:
        challenge = ScramSignIn(mechanism, verifiers).challenge(f"n,,n={user},r=abc".encode()).decode()
        return challenge.split(",")[1:]

    known, unknown = (salt_and_iterations(user, Verifiers(USERS)) for user in ("ann", "bob"))
    assert known != unknown
    assert [len(part) for part in known] == [len(part) for part in unknown]
    assert known[1] == unknown[1], "as many iterations"
    assert unknown == salt_and_iterations("bob", Verifiers(USERS)), "the same after a restart"
    assert unknown != salt_and_iterations("eve", Verifiers(USERS))


def test_what_was_heard_serves_nobody_again() -> None:
    verifiers = Verifiers(USERS)
    client, server = ClientSignIn("ann", "sesame"), ScramSignIn("SCRAM-SHA-256", verifiers)
    first = client.begin(server.mechanism)
    final = client.respond(server.challenge(first))
    server.finish(final)
    again = ScramSignIn("SCRAM-SHA-256", verifiers)
    again.challenge(first)
    with pytest.raises(SignInRefused, match="nonce"):
        again.finish(final)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,n=ann",
        b"p=tls-unique,,n=ann,r=abc",
        b"n,a=root,n=ann,r=abc",
        b"n,,n=a=n,r=abc",
        b"\xff",
    ],
)
def test_a_malformed_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(SignInRefused):
        ScramSignIn("SCRAM-SHA-256", Verifiers(USERS)).challenge(message)


@pytest.mark.parametrize("message", [b"", b"c=biws", b"c=biws,r=abc,p=eHl6", b"\xff"])
def test_a_malformed_proof_is_refused(message: bytes) -> None:
    server = ScramSignIn("SCRAM-SHA-256", Verifiers(USERS))
    server.challenge(b"n,,n=ann,r=abc")
    with pytest.raises(SignInRefused):
        server.finish(message)


def test_a_broker_that_knows_no_password_is_left() -> None:
    client, server = ClientSignIn("ann", "sesame"), ScramSignIn("SCRAM-SHA-256", Verifiers(USERS))
    sign_in(client, server)
    for last in (None, b"v=" + base64.b64encode(b"x" * 32), b"e=other-error", b"n,,"):
        with pytest.raises(AmqpError) as caught:
            client.complete(last)
        assert caught.value.condition == "amqp:unauthorized-access"


def failed(sign_ins: SignIns, remote: str, user: str) -> None:
    sign_ins.failed(remote, user, lambda now_us: None, 1)


def queued(sign_ins: SignIns, *who: tuple[str, str]) -> None:
    for remote, user in who:
        sign_ins.logins.append(Login(remote, user, "", lambda user, accepted, now_us: None, lambda: True))


def taken(sign_ins: SignIns) -> list[str]:
    return [f"{(login := sign_ins.take()).user}@{login.remote}" for _ in range(len(sign_ins.logins))]


def test_passwords_are_checked_as_they_came() -> None:
    sign_ins = SignIns(USERS)
    queued(sign_ins, ("a:1", "ann"), ("b:1", "bob"), ("a:2", "ann"))
    assert taken(sign_ins) == ["ann@a:1", "bob@b:1", "ann@a:2"]


def test_who_guesses_waits_for_the_others() -> None:
    sign_ins = SignIns(USERS)
    failed(sign_ins, "a:1", "eve")
    queued(sign_ins, ("a:2", "eve"), ("a:3", "new"), ("[::1]:9", "ann"), ("a:4", "ann"))
    assert taken(sign_ins) == ["ann@[::1]:9", "new@a:3", "ann@a:4", "eve@a:2"], "the address counts, too"


def test_who_has_signed_in_before_goes_before_new_names() -> None:
    sign_ins = SignIns(USERS)
    sign_ins.succeeded("a:1", "ann")
    for number in range(3):
        failed(sign_ins, "a:1", f"guess-{number}")
    queued(sign_ins, ("a:2", "guess-3"), ("a:3", "ann"))
    assert taken(sign_ins) == ["ann@a:3", "guess-3@a:2"]


def test_a_success_makes_failures_forgotten() -> None:
    sign_ins = SignIns(USERS)
    failed(sign_ins, "a:1", "ann")
    sign_ins.succeeded("a:1", "ann")
    queued(sign_ins, ("a:2", "bob"), ("a:3", "ann"))
    assert taken(sign_ins) == ["ann@a:3", "bob@a:2"]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_sign_ins, "MAX_REMEMBERED", 2)
    sign_ins = SignIns(USERS)
    failed(sign_ins, "a:1", "eve")
    for number in range(3):
        failed(sign_ins, f"b{number}:1", "bob")
    queued(sign_ins, ("c:1", "new"), ("a:2", "eve"))
    assert taken(sign_ins) == ["new@c:1", "eve@a:2"]
    assert [sign_ins.failures.count((host, "bob")) for host in ("b0", "b1", "b2")] == [0, 0, 1]

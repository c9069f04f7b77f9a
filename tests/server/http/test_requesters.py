"""Who may make requests over HTTP: sessions and their CSRF tokens, tokens, machines without users."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.ledger.reading.acts import read_acts
from postroom.manager.security.acts import SIGN_IN
from postroom.model.entity_types import USER_TYPE
from postroom.server.configuration.http import HttpConfig
from postroom.server.configuration.roles import RoleConfig
from postroom.server.configuration.sign_in import SignInConfig, SignInRuleConfig
from postroom.server.http.sessions import MAX_SESSIONS_OF_USER, Sessions
from postroom.server.http.sign_in import SignedIn
from postroom.server.http.tokens import TOKENS_NAME, Right, add_token
from tests.server.access.tokens import OTHER_RSA_KEY, oauth_config, write_jwks
from tests.server.access.tokens import token as web_token
from tests.server.http.test_users import ROLES, USERS, root_of, with_users
from tests.server.http_client import Answered, Served, serving

pytestmark = pytest.mark.sockets

SESSION = "/api/v1/session"
JSON = "application/json"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with with_users(tmp_path_factory.mktemp("users") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def open_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("open") / "data") as running:
        yield running


def sign_in(served: Served, user: str = "ann", password: str = "", **headers: str) -> Answered:
    body = json.dumps({"user": user, "password": password or user}).encode()
    return served.get(SESSION, token="", method="POST", body=body, content_type=JSON, **headers)


def word_of(answer: Answered) -> str:
    return str(answer.json()["type"]).rpartition(":")[2]


def cookie_of(answer: Answered) -> str:
    return answer.headers["set-cookie"].partition(";")[0]


def session(served: Served, user: str = "ann") -> tuple[str, str]:
    """Its cookie and its CSRF token."""
    answer = sign_in(served, user)
    assert answer.status == 201
    return cookie_of(answer), answer.json()["csrf_token"]


def sign_out(served: Served, cookie: str, **headers: str) -> Answered:
    return served.get(SESSION, token="", method="DELETE", cookie=cookie, **headers)


def test_a_session_lasts_from_signing_in_to_signing_out(served: Served) -> None:
    answer = sign_in(served)
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(answer.headers["set-cookie"].split("; "))
    assert "Secure" not in answer.headers["set-cookie"]
    cookie, csrf = cookie_of(answer), answer.json()["csrf_token"]
    assert served.get(SESSION, token="", cookie=cookie).json() == {
        "user": "ann",
        "csrf_token": csrf,
        "is_open": False,
    }
    assert sign_out(served, cookie, x_csrf_token=csrf).status == 204
    assert served.get(SESSION, token="", cookie=cookie).status == 401


@pytest.mark.parametrize(("user", "password"), [("ann", "wrong"), ("nobody", "nobody"), ("", "x")])
def test_who_doesnt_know_the_password_is_refused_and_recorded(
    served: Served, user: str, password: str
) -> None:
    answer = sign_in(served, user, password)
    assert answer.status == (401 if user else 400)
    assert "set-cookie" not in answer.headers
    if user:
        served.broker.wait_until(
            lambda _: any(
                (each["operation"], each["user"], each["status"]) == (SIGN_IN, user, 401)
                for each in read_acts(served.folder)
            )
        )


def test_an_unsafe_request_needs_the_sessions_csrf_token(served: Served) -> None:
    cookie, csrf = session(served)
    other = session(served)[1]
    for headers in ({}, {"x_csrf_token": other}, {"x_csrf_token": "é"}):
        answer = sign_out(served, cookie, **headers)
        assert (answer.status, word_of(answer)) == (403, "wrong-csrf-token")
    form = f"csrf_token={csrf}".encode()
    kind = "application/x-www-form-urlencoded"
    answer = served.get(SESSION, token="", method="DELETE", body=form, cookie=cookie, content_type=kind)
    assert answer.status == 204


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.example"}, {"origin": "null"}, {"sec_fetch_site": "cross-site"}],
)
def test_what_another_sites_page_sends_is_refused(served: Served, headers: dict[str, str]) -> None:
    cookie, csrf = session(served)
    answer = sign_out(served, cookie, x_csrf_token=csrf, **headers)
    assert (answer.status, word_of(answer)) == (403, "cross-site")
    assert sign_in(served, **headers).status == 403


@pytest.mark.parametrize(
    ("host", "status"), [("evil.example", 421), ("evil.example:80", 421), ("[::1]", 401)]
)
def test_a_loopback_address_has_no_other_names(served: Served, host: str, status: int) -> None:
    assert served.get(SESSION, token="", host=host).status == status


def test_a_session_ends_with_the_password_and_with_the_user(served: Served) -> None:
    from postroom.server.configuration.passwords import MIN_ITERATIONS, hash_password

    with root_of(served) as root:
        made = {"verifiers": [hash_password("eve", iterations=MIN_ITERATIONS)]}
        assert root.status("CREATE", made, type=USER_TYPE, name="eve") == 201
        changes = ({"verifiers": [hash_password("new", iterations=MIN_ITERATIONS)]}, {"locked": True})
        for password, change in zip(("eve", "new"), changes, strict=True):
            cookie = cookie_of(sign_in(served, "eve", password))
            assert served.get(SESSION, token="", cookie=cookie).status == 200
            assert root.status("UPDATE", change, type=USER_TYPE, name="eve") == 200
            assert served.get(SESSION, token="", cookie=cookie).status == 401
        assert sign_in(served, "eve", "new").status == 401


def test_a_token_acts_as_its_user(served: Served) -> None:
    file = served.folder / TOKENS_NAME
    good = add_token(file, "of ann", [Right.MANAGE], user="ann")
    assert served.get(SESSION, token=good).json() == {"user": "ann", "csrf_token": "", "is_open": False}
    nobody = add_token(file, "of nobody", [Right.MANAGE], user="nobody")
    unowned = add_token(file, "of no user", [Right.MANAGE])
    reader = add_token(file, "reads", [Right.LEDGER], user="ann")
    for each in (nobody, unowned, reader):
        assert served.get(SESSION, token=each).status == 403
    assert served.get(SESSION, token="a.b").status == served.get(SESSION, token="a.b.c").status == 401
    assert served.get(SESSION, token="").status == 401


def test_without_users_this_machine_may_do_everything_but_no_page_of_another_site(
    open_broker: Served,
) -> None:
    shown = open_broker.get(SESSION, token="").json()
    assert shown["user"] == "anonymous" and shown["csrf_token"]
    delete = {"token": "", "method": "DELETE"}
    assert open_broker.get(SESSION, **delete, origin="http://evil.example").status == 403
    assert open_broker.get(SESSION, **delete, sec_fetch_site="same-site").status == 403
    assert open_broker.get(SESSION, token="", host="evil.example").status == 421
    form = {"body": b"x=1", "content_type": "application/x-www-form-urlencoded"}
    assert open_broker.get(SESSION, **delete, **form).status == 403
    assert open_broker.get(SESSION, **delete, body=b"{}", content_type="text/plain").status == 415
    form["body"] = f"csrf_token={shown['csrf_token']}".encode()
    assert open_broker.get(SESSION, **delete, **form).status == 204
    assert open_broker.get(SESSION, **delete).status == 204


def test_a_body_has_a_bound(tmp_path: Path) -> None:
    config = HttpConfig(address="127.0.0.1:0", max_body_bytes=64 << 10)
    with serving(tmp_path / "data", config) as served:
        for size, status in (((64 << 10) + 1, 413), (64 << 10, 400)):
            answer = served.get(SESSION, token="", method="POST", body=b" " * size, content_type=JSON)
            assert answer.status == status


def test_sessions_have_bounds() -> None:
    time_s = 0.0
    users = {name: (name,) for name in ("ann", "bob", "eve")}
    sessions = Sessions(HttpConfig(max_sessions=MAX_SESSIONS_OF_USER + 1), users, lambda: time_s)
    cookies = [sessions.begin(SignedIn("ann", ("ann",)))[0] for _ in range(MAX_SESSIONS_OF_USER + 1)]
    assert sessions.find(cookies[0]) is None and sessions.find(cookies[1]) is not None
    assert sessions.begin(SignedIn("bob", ("bob",)))
    with pytest.raises(Exception, match="max_sessions"):
        sessions.begin(SignedIn("eve", ("eve",)))
    time_s = 1800.0
    assert sessions.find(cookies[1]) is None
    cookie, session = sessions.begin(SignedIn("eve", ("eve",)))
    while time_s < 1800 + 43_200:
        assert sessions.find(cookie) is session
        time_s += 1000
    assert sessions.find(cookie) is None and not sessions.lives(session)


def test_a_web_token_acts_as_its_user_with_its_roles(tmp_path: Path) -> None:
    roles = [RoleConfig("administrator", members=["root"]), RoleConfig("seer", grants=["inquire on #"])]
    oauth = oauth_config(write_jwks(tmp_path / "jwks.json"))
    config = HttpConfig(address="127.0.0.1:0")
    with serving(tmp_path / "data", config, users=USERS, role=roles, oauth=oauth, queues=("q",)) as served:
        seeing = web_token("robot", roles=["seer"])
        assert served.get(SESSION, token=seeing).json()["user"] == "robot"
        assert served.get("/api/v1/queues/q", token=seeing).status == 200
        refused = served.get("/api/v1/queues/q/purge", token=seeing, method="POST")
        assert (refused.status, refused.json()["right"]) == (403, "purge")
        assert served.get("/api/v1/queues/q", token=web_token("robot")).status == 403
        for bad in (web_token("robot", key=OTHER_RSA_KEY), web_token("robot", exp=1)):
            answer = served.get(SESSION, token=bad)
            assert (answer.status, word_of(answer)) == (401, "bad-token")


def test_rules_of_sign_in_hold_over_http(tmp_path: Path) -> None:
    rules = [
        SignInRuleConfig(users=["ann"], mechanisms=["SCRAM-SHA-256"]),
        SignInRuleConfig(mechanisms=["PLAIN"]),
    ]
    config = HttpConfig(address="127.0.0.1:0")
    with serving(tmp_path / "data", config, users=USERS, role=ROLES, sign_in_rule=rules) as served:
        assert sign_in(served, "root").status == 201
        assert word_of(sign_in(served, "ann")) == "wrong-sign-in"


def test_guesses_are_slowed_down_and_turned_away(tmp_path: Path) -> None:
    bounds = SignInConfig(failure_delay_ms=60_000, max_failure_delay_ms=60_000, waiting_per_user=1)
    config = HttpConfig(address="127.0.0.1:0")
    with serving(tmp_path / "data", config, users=USERS, role=ROLES, sign_in=bounds) as served:
        assert sign_in(served, "ann", "wrong").status == 401
        guessing = threading.Thread(target=lambda: sign_in(served, "ann", "wrong"), daemon=True)
        guessing.start()
        served.broker.wait_until(lambda broker: broker.sign_ins.failures.waiting == 1)
        answer = sign_in(served, "ann")
        assert (answer.status, word_of(answer)) == (429, "too-many-sign-ins")
        assert sign_in(served, "root").status == 201
    guessing.join()

"""HTTP by users: a token opens what its user may read, as long as that is so, and refusals are recorded."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest
from proton.utils import BlockingConnection

from postroom.ledger.reading.acts import read_acts
from postroom.model.entity_types import USER_TYPE
from postroom.server.configuration.http import HttpConfig
from postroom.server.configuration.passwords import MIN_ITERATIONS, hash_password
from postroom.server.configuration.roles import RoleConfig
from postroom.server.http.callers import OF_USERS
from postroom.server.http.ledger_routes import RIGHTS
from postroom.server.http.monitoring.metrics_routes import METRICS_PATH
from postroom.server.http.tokens import TOKENS_NAME, Right, add_token, read_tokens, remove_token
from tests.server.http_client import Served, serving
from tests.server.management_peer import Manager

pytestmark = pytest.mark.sockets

USERS = {name: hash_password(name, iterations=MIN_ITERATIONS) for name in ("root", "ann")}
ROLES = [
    RoleConfig("administrator", members=["root"]),
    RoleConfig("reader", members=["ann"], grants=["read-ledger, metrics on queue manager"]),
]
SERIALS = (1).to_bytes(8, "little")


def with_users(folder: Path) -> AbstractContextManager[Served]:
    config = HttpConfig(address="127.0.0.1:0", open_metrics=False)
    return serving(folder, config, users=USERS, role=ROLES)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with with_users(tmp_path / "data") as running:
        yield running


def token(served: Served, user: str, *rights: Right) -> str:
    name = f"of {user}" if not rights else f"of {user} for {', '.join(rights)}"
    file = served.folder / TOKENS_NAME
    if any(each.name == name for each in read_tokens(file)):
        remove_token(file, name)
    return add_token(file, name, list(rights or Right), user=user)


@contextmanager
def root_of(served: Served) -> Iterator[Manager]:
    url = served.broker.url
    with closing(BlockingConnection(url, timeout=15, user="root", password="root")) as connection:
        yield Manager(connection)


def test_a_token_opens_what_its_user_may_read(served: Served) -> None:
    of_ann, of_root = token(served, "ann"), token(served, "root", Right.LEDGER)
    assert served.get("/ledger", token=of_ann).status == served.get("/metrics", token=of_ann).status == 200
    bodies = served.get("/ledger/messages", token=of_ann, method="POST", body=SERIALS)
    assert bodies.status == 200
    assert served.get("/ledger", token=of_root).status == 200
    refused = served.get("/metrics", token=of_root)
    assert (refused.status, refused.json()["what"]) == (
        403,
        "the token 'of root for ledger' has no right 'metrics'",
    )


def test_what_is_taken_from_the_user_the_token_opens_no_more(served: Served) -> None:
    made = {"verifiers": [USERS["ann"]]}
    with root_of(served) as root:
        assert root.status("CREATE", made, type=USER_TYPE, name="bob") == 201
        of_bob = token(served, "bob")
        refused = served.get("/ledger", token=of_bob)
        assert refused.status == 403
        assert (
            refused.json()["what"]
            == "the token 'of bob': user 'bob' has no right 'read-ledger' on queue manager"
        )
        grant = {"rights": ["read-ledger"], "on": "queue manager"}
        assert root.status("GRANT", grant, type=USER_TYPE, name="bob") == 200
        assert served.get("/ledger", token=of_bob).status == 200
        assert served.get("/metrics", token=of_bob).status == 403
        assert root.status("UPDATE", {"locked": True}, type=USER_TYPE, name="bob") == 200
        assert served.get("/ledger", token=of_bob).status == 403


@pytest.mark.parametrize(("path", "right"), [*RIGHTS.items(), (METRICS_PATH, Right.METRICS)])
def test_each_path_asks_for_its_right(served: Served, path: str, right: Right) -> None:
    urls = {"/ledger/records": "/ledger/records?first=1&last=1", "/ledger/files/{name}": "/ledger/files/x"}
    request = {"method": "POST", "body": SERIALS} if path == "/ledger/messages" else {}
    others = [each for each in OF_USERS if each is not right]
    refused = [
        token(served, "", right),
        token(served, "nobody", right),
        token(served, "bob", right),
        token(served, "root", *others),
    ]
    made = {"verifiers": [USERS["ann"]]}
    with root_of(served) as root:
        assert root.status("CREATE", made, type=USER_TYPE, name="bob") == 201
        rights = {"rights": [OF_USERS[each].value for each in others], "on": "queue manager"}
        assert root.status("GRANT", rights, type=USER_TYPE, name="bob") == 200
        for each in refused:
            answer = served.get(urls.get(path, path), token=each, **request)
            assert (answer.status, answer.json()["right"]) == (403, str(right))
        rights["rights"] = [OF_USERS[right].value]
        assert root.status("GRANT", rights, type=USER_TYPE, name="bob") == 200
    opened = served.get(urls.get(path, path), token=token(served, "bob", right), **request)
    assert opened.status == (404 if path.endswith("{name}") else 200)


def test_a_token_of_nobody_says_what_is_missing(served: Served) -> None:
    refused = served.get("/ledger", token=token(served, ""))
    assert "make it anew, with --user" in refused.json()["what"]


def test_refusals_are_recorded(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with with_users(folder) as served:
        of_root = token(served, "root", Right.LEDGER)
        assert served.get("/metrics", token=of_root).status == 403
        assert served.get("/ledger/files/secret-name", token="no.token").status == 401
        assert served.get("/ledger").status == 403  # the token that `serving` makes is nobody's
        assert served.get("/ledger/records?first=1&last=1", token="").status == 401  # none was presented
    acts = [act for act in read_acts(folder) if act["type"] == "http"]
    found = [(act.get("user"), act["operation"], act["name"], act["status"]) for act in acts]
    assert found == [
        ("root", "GET", "/metrics", 403),
        (None, "SIGN-IN", "/ledger/files/", 401),
        (None, "GET", "/ledger", 403),
    ]
    assert all(act["remote"].startswith("127.0.0.1:") for act in acts)
    assert "no.token" not in repr(acts)

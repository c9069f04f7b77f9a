"""Every operation of the API: nobody without its right, recorded; whoever has it. And what it reaches."""

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest
from tools.openapi import NOT_OFFERED

from postroom.amqp.errors import UNAUTHORIZED_ACCESS
from postroom.ledger.reading.acts import read_acts
from postroom.model.entity_types import LEDGER_TYPE, MESSAGE_TYPE
from postroom.server.configuration.http import HttpConfig
from postroom.server.http.api.operation import PREFIX, Operation
from postroom.server.http.api.routes import all_operations
from postroom.server.http.tokens import Right
from postroom.server.management.authorization import RULES
from tests.server.access.test_matrix import ALL_BUT, BODIES, NAMES, NOT_THERE, config, shape
from tests.server.http.api.client import Api, session
from tests.server.http_client import Served, serving

pytestmark = pytest.mark.sockets

OPERATIONS = {each.id: each for each in all_operations()}
FREE = {"sign_in", "read_session", "sign_out", "stream_events"}
"""They need a session, and no right: a stream shows what may be seen."""
NO_NODE = {
    "list_acts": "read-ledger",
    "list_tokens": "administer-users",
    "create_token": "administer-users",
    "delete_token": "administer-users",
    "list_alarms": "inquire",
}
REFUSED = [
    each.id
    for each in OPERATIONS.values()
    if (each.reaches and each.reaches[0] not in NOT_THERE) or each.id in NO_NODE
]
SAMPLES = {"wait": "", "listen": "", "message": {"body": "x"}, "messages": [{"body": "x"}], "rights": ["put"]}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    made = config()
    with serving(
        tmp_path_factory.mktemp("rights") / "data",
        HttpConfig(address="127.0.0.1:0", max_requests_per_s=100_000, max_sessions=10_000),
        queues=("orders", "elsewhere"),
        users=ALL_BUT,
        role=made.role,
    ) as running:
        yield running


@pytest.fixture(scope="module")
def nobody(served: Served) -> Api:
    return session(served, "nobody")


@pytest.fixture(scope="module")
def root(served: Served) -> Api:
    return session(served, "root")


def least(kind: Any) -> Any:
    """The least value that a type of the API takes."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = msgspec.structs.fields(kind)
        return {each.name: SAMPLES.get(each.name, least(each.type)) for each in fields if each.required}
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return arguments[0]
    if origin is list or kind is list:
        return [least(arguments[0])]
    if arguments:
        return least(arguments[0])
    if isinstance(kind, type) and issubclass(kind, Right):
        return str(next(iter(Right)))
    return {str: "x", int: 1, bool: True}[kind]


def request_of(operation: Operation) -> tuple[str, str, Any]:
    """One that means something, as far as the matrix of AMQP has it."""
    reached = operation.reaches[0] if operation.reaches else ("", "")
    name = NAMES.get(reached) or NAMES.get(reached[0], "orders")  # type: ignore[call-overload]
    path = operation.path.replace("{name}", str(name).replace(":", "%3A"))
    path = path.replace("{serial}", "1").replace("{cursor}", "1")
    if operation.id == "find_messages":
        path += "?serial=1"
    if operation.arguments is None:
        return operation.method, path, None
    body = least(operation.arguments) | BODIES.get(reached, {})
    if operation.id == "create_token":
        body["rights"] = [str(Right.LEDGER)]
    if "name" in body:
        body["name"] = name if operation.id != "create_user" else "new-user"
    return operation.method, path, body


def test_every_operation_of_the_management_node_is_offered_or_said_not_to_be() -> None:
    offered = {reached for each in OPERATIONS.values() for reached in each.reaches}
    there = {(type, operation) for type, operations in RULES.items() for operation in operations}
    assert offered | set(NOT_OFFERED) == there
    assert not offered & set(NOT_OFFERED)
    listed = {each.tag for each in OPERATIONS.values() if each.id.startswith("list_")}
    assert len(listed) >= len(set(RULES) - {LEDGER_TYPE, MESSAGE_TYPE})
    assert len(OPERATIONS) == len(all_operations())


@pytest.mark.parametrize("id", REFUSED)
def test_without_the_right_it_is_refused_and_recorded(served: Served, nobody: Api, id: str) -> None:
    operation = OPERATIONS[id]
    before = served.broker.call(shape)
    problem = nobody.problem(*request_of(operation))
    assert (problem["status"], problem["type"]) == (403, "urn:postroom:problem:no-right"), problem
    assert problem["condition"] == UNAUTHORIZED_ACCESS and "on" in problem
    assert problem["right"] and f"'nobody' has no right '{problem['right']}'" in problem["detail"]
    if id in NO_NODE:
        assert problem["right"] == NO_NODE[id]
    assert served.broker.call(shape) == before
    wanted = {"user": "nobody", "status": 403, "container": "http", "description": problem["detail"]}
    served.broker.wait_until(lambda _: any(wanted.items() <= act.items() for act in read_acts(served.folder)))


@pytest.mark.parametrize("id", sorted(set(OPERATIONS) - {"stream_events", "sign_out"}))
def test_with_the_right_it_is_taken_up(root: Api, id: str) -> None:
    answer = root.send(*request_of(OPERATIONS[id]))
    assert answer.status not in (403, 405, 500, 501) or b"no-right" not in answer.body, answer.body
    assert answer.status != 500 and b"bad-body" not in answer.body, answer.body


@pytest.mark.parametrize("id", sorted(set(OPERATIONS) - {"sign_in"}))
def test_nobody_who_has_not_signed_in_gets_anything(served: Served, id: str) -> None:
    problem = Api(served.url).problem(*request_of(OPERATIONS[id]))
    assert problem["type"].endswith(":not-signed-in")


@pytest.mark.parametrize(
    "id", sorted(each.id for each in OPERATIONS.values() if each.method != "GET" and each.id != "sign_in")
)
def test_no_session_changes_anything_without_its_csrf_token(root: Api, id: str) -> None:
    method, path, body = request_of(OPERATIONS[id])
    problem = root.problem(method, path, body, x_csrf_token="other")
    assert (problem["status"], problem["type"]) == (403, "urn:postroom:problem:wrong-csrf-token")
    problem = root.problem(method, path, body, origin="http://evil.example")
    assert (problem["status"], problem["type"]) == (403, "urn:postroom:problem:cross-site")


@pytest.mark.parametrize("id", sorted(each for each in OPERATIONS if each.startswith("list_")))
def test_a_list_shows_what_may_be_seen(nobody: Api, root: Api, id: str) -> None:
    operation = OPERATIONS[id]
    if id in NO_NODE:
        return
    for query in ("", "?sort=name"):
        assert nobody.done("GET", operation.path + query)["total"] == 0
    if id in ("list_queues", "list_users", "list_roles"):
        page = root.done("GET", operation.path)
        assert page["total"] == len(page["items"]) > 0


def test_who_may_see_some_queues_gets_those(served: Served, root: Api) -> None:
    root.done("POST", "/users", {"name": "some", "password": "some"})
    root.done("POST", "/users/some/grant", {"rights": ["inquire"], "on": "elsewhere"})
    page = session(served, "some").done("GET", "/queues")
    assert ([each["name"] for each in page["items"]], page["total"]) == (["elsewhere"], 1)


def test_a_password_that_is_set_over_the_api_opens_a_session(served: Served, root: Api) -> None:
    made = root.done("POST", "/users", {"name": "ann", "password": "first"})
    assert made["signs_in_by"] and "password" not in made
    signed_in = session(served, "ann", "first")
    assert signed_in.done("PATCH", "/users/ann", {"password": "second"})["name"] == "ann"
    assert signed_in.problem("GET", "/session")["status"] == 401
    assert session(served, "ann", "second").done("GET", "/session")["user"] == "ann"
    assert "second" not in str(list(read_acts(served.folder)))
    root.done("PATCH", "/users/ann", {"locked": True})
    assert Api(served.url).problem("POST", "/session", {"user": "ann", "password": "second"})["status"] == 401
    root.done("DELETE", "/users/ann")


def test_paths_of_the_api_begin_alike() -> None:
    assert all(each.path.startswith("/") and not each.path.startswith(PREFIX) for each in OPERATIONS.values())

"""What links a user may attach, what becomes of them when rights change, and what detours come to."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from proton import ConnectionException, Message
from proton.reactor import Copy
from proton.utils import BlockingConnection, LinkDetached, SendException

from postroom.amqp.errors import UNAUTHORIZED_ACCESS
from postroom.ledger.reading.acts import read_acts
from postroom.manager.kernel.effects import PRESETTLED, Sink
from postroom.model.entity_types import (
    BRANCH_TYPE,
    MESSAGE_TYPE,
    QUEUE_TYPE,
    REMOTE_QUEUE_TYPE,
    ROLE_TYPE,
    TOPIC_TYPE,
    USER_TYPE,
)
from postroom.model.message import MessageHead
from postroom.model.xa import XaFlag, Xid
from postroom.server.configuration.passwords import MIN_ITERATIONS, hash_password
from postroom.server.connection.broker import Broker
from tests.server.harness import BrokerThread, make_config
from tests.server.management_peer import Manager

pytestmark = pytest.mark.sockets

EMPTY = b"\x00\x53\x77\x40"
"""A body that is null."""
USERS = {name: hash_password(name, iterations=MIN_ITERATIONS) for name in ("root", "ann", "bob")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def guarded(folder: Path) -> Iterator[BrokerThread]:
    with BrokerThread(make_config(("orders", "replies", "secret")), folder=folder) as running:
        with closing(BlockingConnection(running.url, timeout=15)) as first:
            manager = Manager(first)
            for name, roles in (("root", ["administrator"]),):
                body = {"roles": roles, "verifiers": [USERS[name]]}
                assert manager.status("CREATE", body, type=USER_TYPE, name=name) == 201
        with closing(signed_in(running, "root")) as connection:
            manager = Manager(connection)
            for name in ("ann", "bob"):
                assert (
                    manager.status("CREATE", {"verifiers": [USERS[name]]}, type=USER_TYPE, name=name) == 201
                )
        yield running


@pytest.fixture
def root(guarded: BrokerThread) -> Iterator[Manager]:
    with closing(signed_in(guarded, "root")) as connection:
        yield Manager(connection)


@pytest.fixture
def ann(guarded: BrokerThread) -> Iterator[BlockingConnection]:
    with closing(signed_in(guarded, "ann")) as connection:
        yield connection


def signed_in(broker: BrokerThread, user: str, **options: object) -> BlockingConnection:
    return BlockingConnection(
        broker.url, timeout=15, user=user, password=user, allowed_mechs="PLAIN", **options
    )


def grant(root: Manager, rights: str, on: str, to: str = "ann") -> None:
    body = {"rights": rights.split(","), "on": on}
    assert root.status("GRANT", body, type=USER_TYPE, name=to) == 200


def revoke(root: Manager, rights: str, on: str, of: str = "ann") -> None:
    body = {"rights": rights.split(","), "on": on}
    assert root.status("REVOKE", body, type=USER_TYPE, name=of) == 200


def depth(broker: BrokerThread, queue: str) -> int:
    return broker.call(lambda b: int(b.manager.queues[queue].statistics.depth))


def test_nothing_is_attached_without_a_right(ann: BlockingConnection) -> None:
    for attach in (
        lambda: ann.create_sender("orders"),
        lambda: ann.create_receiver("orders"),
        lambda: ann.create_receiver("orders", options=Copy()),
        lambda: ann.create_receiver("", dynamic=True),
        lambda: ann.create_sender("never-heard-of"),
    ):
        with pytest.raises(LinkDetached) as refused:
            attach()
        assert refused.value.condition == UNAUTHORIZED_ACCESS


def test_each_right_opens_what_it_is_for(
    root: Manager, ann: BlockingConnection, guarded: BrokerThread
) -> None:
    grant(root, "put", "orders")
    ann.create_sender("orders").send(Message(body="a", durable=True))
    with pytest.raises(LinkDetached):
        ann.create_receiver("orders", options=Copy())
    grant(root, "browse", "orders")
    assert ann.create_receiver("orders", name="looks", options=Copy()).receive(timeout=15).body == "a"
    with pytest.raises(LinkDetached):
        ann.create_receiver("orders")
    grant(root, "get", "#")
    receiver = ann.create_receiver("orders", name="takes")
    assert receiver.receive(timeout=15).body == "a"
    receiver.accept()


def test_who_isnt_told_of_queues_learns_nothing_of_them(ann: BlockingConnection) -> None:
    """The same answer whether there is one or not."""
    texts = []
    for name in ("secret", "absent"):
        with pytest.raises(LinkDetached) as refused:
            ann.create_sender(name)
        texts.append((refused.value.condition, str(refused.value).replace(name, "")))
    assert texts[0] == texts[1]


def test_to_make_a_queue_needs_a_right_of_its_own(
    root: Manager, ann: BlockingConnection, guarded: BrokerThread
) -> None:
    grant(root, "put", "new.#")
    with pytest.raises(LinkDetached, match="'create'"):
        ann.create_sender("new.one")
    assert guarded.call(lambda b: "new.one" not in b.manager.queues)
    grant(root, "create", "new.#")
    ann.create_sender("new.one").send(Message(body="a"))


def test_the_anonymous_terminus_asks_for_each_message(
    root: Manager, ann: BlockingConnection, guarded: BrokerThread
) -> None:
    grant(root, "put", "orders")
    sender = ann.create_sender(None)
    sender.send(Message(address="orders", body="a", durable=True))
    with pytest.raises(SendException):
        sender.send(Message(address="secret", body="b", durable=True))
    sender = ann.create_sender(None, name="another")
    revoke(root, "put", "orders")
    with pytest.raises(SendException):
        sender.send(Message(address="orders", body="c", durable=True))
    assert depth(guarded, "orders") == 1
    assert depth(guarded, "secret") == 0


def test_a_right_that_is_taken_ends_the_links_that_had_it(
    root: Manager, ann: BlockingConnection, guarded: BrokerThread
) -> None:
    grant(root, "put,get", "orders")
    sender, receiver = ann.create_sender("orders"), ann.create_receiver("orders")
    sender.send(Message(body="a", durable=True))
    assert receiver.receive(timeout=15).body == "a"
    revoke(root, "get", "orders")
    with pytest.raises(LinkDetached, match="'get'"):
        receiver.receive(timeout=15)
    sender.send(Message(body="b", durable=True))
    assert depth(guarded, "orders") == 2, "what the receiver held has gone back"


def test_a_locked_user_is_out_at_once(root: Manager, ann: BlockingConnection, guarded: BrokerThread) -> None:
    grant(root, "put", "orders")
    sender = ann.create_sender("orders")
    assert root.status("UPDATE", {"locked": True}, type=USER_TYPE, name="ann") == 200
    with pytest.raises(ConnectionException):
        sender.send(Message(body="a", durable=True))
    with pytest.raises(ConnectionException, match="unauthorized"):
        signed_in(guarded, "ann")


def test_a_restart_keeps_users_and_passwords(guarded: BrokerThread, root: Manager, folder: Path) -> None:
    grant(root, "put", "orders")
    new = hash_password("new", iterations=MIN_ITERATIONS)
    assert root.status("UPDATE", {"verifiers": [new]}, type=USER_TYPE, name="ann") == 200
    root.connection.close()
    guarded.stop()
    guarded.__exit__(None, None, None)
    with BrokerThread(make_config(), folder=folder) as again:
        with pytest.raises(ConnectionException, match="unauthorized"):
            signed_in(again, "ann")
        with closing(
            BlockingConnection(again.url, timeout=15, user="ann", password="new", allowed_mechs="PLAIN")
        ) as connection:
            connection.create_sender("orders").send(Message(body="a", durable=True))
            with pytest.raises(LinkDetached):
                connection.create_sender("secret")
        assert len(again.call(lambda b: list(b.access.verifiers._by_id))) == 3, "no old password is kept"
        assert USERS["ann"] not in (folder / "verifiers.json").read_text()
    assert (folder / "verifiers.json").stat().st_mode & 0o777 == 0o600
    ledger = b"".join(
        file.read_bytes() for file in folder.iterdir() if file.suffix in (".journal", ".events")
    )
    assert b"SCRAM-SHA" not in ledger, "what is kept of passwords is in no ledger"


def test_no_other_user_takes_a_link_over(
    root: Manager, ann: BlockingConnection, guarded: BrokerThread
) -> None:
    """Not even with the same container and link name: what ann's link holds stays hers."""
    grant(root, "put,get", "orders")
    grant(root, "put,get", "orders", to="bob")
    with closing(signed_in(guarded, "ann", container_id="app")) as first:
        first.create_sender("orders").send(Message(body="a", durable=True))
        receiver = first.create_receiver("orders", name="inbox")
        assert receiver.receive(timeout=15).body == "a"
        with closing(signed_in(guarded, "bob", container_id="app")) as second:
            second.create_receiver("orders", name="inbox")
            receiver.accept()
            first.create_sender("orders", name="still-there").send(Message(body="b", durable=True))


def test_no_answer_of_management_goes_where_its_asker_may_not_put(
    root: Manager, ann: BlockingConnection, guarded: BrokerThread
) -> None:
    sender = ann.create_sender("$management")
    properties = {"operation": "GET-TYPES"}
    sender.send(Message(id="1", reply_to="secret", properties=properties))
    grant(root, "put", "replies")
    sender.send(Message(id="2", reply_to="replies", properties=properties))
    guarded.wait_until(lambda b: b.manager.queues["replies"].statistics.depth == 1)
    assert depth(guarded, "secret") == 0


def test_no_report_goes_where_its_sender_may_not_put(
    root: Manager, ann: BlockingConnection, guarded: BrokerThread
) -> None:
    grant(root, "put", "orders")
    asking = {"JMS_IBM_Report_COA": 256}
    sender = ann.create_sender("orders")
    with pytest.raises(SendException):
        sender.send(Message(id="1", body="a", reply_to="secret", properties=asking, durable=True))
    grant(root, "put", "replies")
    sender = ann.create_sender("orders", name="another")
    sender.send(Message(id="2", body="a", reply_to="replies", properties=asking, durable=True))
    guarded.wait_until(lambda b: b.manager.queues["replies"].statistics.depth == 1)
    assert depth(guarded, "secret") == 0


def test_no_detour_by_the_message_stores_put(root: Manager, ann: BlockingConnection) -> None:
    grant(root, "put", "orders")
    message = Message(id="1", body="a", reply_to="secret", properties={"JMS_IBM_Report_COA": 256}).encode()
    manager = Manager(ann)
    put = {"message": message}
    assert manager.status("PUT-MESSAGE", put, type=MESSAGE_TYPE, name="orders") == 403
    assert manager.status("IMPORT-MESSAGES", {"messages": [message]}, type=MESSAGE_TYPE, name="orders") == 403
    grant(root, "put", "secret")
    assert manager.status("PUT-MESSAGE", put, type=MESSAGE_TYPE, name="orders") == 200


def test_publishing_by_request_needs_what_a_link_needs(
    root: Manager, ann: BlockingConnection, guarded: BrokerThread
) -> None:
    assert root.status("CREATE", {}, type=TOPIC_TYPE, name="headlines") == 201
    manager = Manager(ann)
    plain = {"message": Message(body="a").encode()}
    reporting = Message(body="b", reply_to="secret", properties={"JMS_IBM_Report_COA": 256}).encode()
    assert manager.status("PUBLISH", plain, type=TOPIC_TYPE, name="headlines") == 403
    grant(root, "put", "headlines")
    assert manager.status("PUBLISH", plain, type=TOPIC_TYPE, name="headlines") == 200
    assert manager.status("PUBLISH", {"message": reporting}, type=TOPIC_TYPE, name="headlines") == 403
    published = guarded.call(lambda b: int(b.manager.topics["headlines"].statistics.received))
    assert published == 1


def test_a_branch_is_its_users_whatever_a_request_is_named(
    root: Manager, ann: BlockingConnection, guarded: BrokerThread
) -> None:
    """The verbs go by the property ``xid``: a name beside it changes nothing."""
    xids = {"root": Xid(1, b"root", b"1"), "ann": Xid(1, b"ann", b"1")}

    def begin(broker: Broker, now_us: int) -> None:
        for user, xid in xids.items():
            session = broker.manager.open_xa_session("app", user)
            branch = broker.manager.xa_start(session, xid, XaFlag.TMNOFLAGS, now_us)
            producer, head = broker.manager.open_producer("app", "app", user), MessageHead()
            orders = broker.manager.queue("orders")
            put = (producer, orders, head, EMPTY, Sink(), PRESETTLED, now_us, branch.transaction)
            broker.manager.put(*put)
            broker.manager.xa_end(session, xid, XaFlag.TMSUCCESS, [], now_us)

    guarded.turn(begin)
    manager = Manager(ann)
    own, others = str(xids["ann"]), str(xids["root"])
    for verb in ("PREPARE", "COMMIT", "ROLLBACK", "FORGET"):
        assert manager.status(verb, type=BRANCH_TYPE, name=own, xid=others) == 403
    assert manager.status("PREPARE", type=BRANCH_TYPE, xid=own) == 200
    assert root.status("PREPARE", type=BRANCH_TYPE, xid=others) == 200
    scan = int(XaFlag.TMSTARTRSCAN | XaFlag.TMENDRSCAN)
    assert manager.request("RECOVER", type=BRANCH_TYPE, flags=scan).body["xids"] == [own]
    assert sorted(root.request("RECOVER", type=BRANCH_TYPE, flags=scan).body["xids"]) == sorted([own, others])


def test_no_detour_by_definitions(root: Manager, ann: BlockingConnection) -> None:
    """A dead-letter queue, an expiry queue, an alias: all put in the name of whoever has set them."""
    grant(root, "create,alter,put,get", "mine.#")
    manager = Manager(ann)
    for body in ({"dead_letter_queue": "secret"}, {"expiry_queue": "secret"}):
        assert manager.status("CREATE", body, type=QUEUE_TYPE, name="mine.a") == 403
    assert manager.status("CREATE", {}, type=QUEUE_TYPE, name="mine.a") == 201
    assert manager.status("UPDATE", {"dead_letter_queue": "secret"}, type=QUEUE_TYPE, name="mine.a") == 403
    alias = {"remote_queue": "secret", "remote_queue_manager": "postroom"}
    assert manager.status("CREATE", alias, type=REMOTE_QUEUE_TYPE, name="mine.alias") == 403


def test_a_temporary_queue_is_its_makers(
    root: Manager, ann: BlockingConnection, guarded: BrokerThread
) -> None:
    grant(root, "create", "postroom.dynamic.#")
    receiver = ann.create_receiver("", dynamic=True)
    address = str(receiver.link.remote_source.address)
    ann.create_sender(address).send(Message(body="own", durable=True))
    assert receiver.receive(timeout=15).body == "own"
    with closing(signed_in(guarded, "bob")) as bob:
        with pytest.raises(LinkDetached):
            bob.create_sender(address)
        grant(root, "put", "postroom.dynamic.#", to="bob")
        bob.create_sender(address).send(Message(body="an answer", durable=True))
    assert receiver.receive(timeout=15).body == "an answer"


def test_a_role_holds_for_those_who_have_it(root: Manager, ann: BlockingConnection) -> None:
    assert root.status("CREATE", {"grants": ["put on orders"]}, type=ROLE_TYPE, name="desk") == 201
    assert root.status("UPDATE", {"roles": ["desk"]}, type=USER_TYPE, name="ann") == 200
    sender = ann.create_sender("orders")
    assert root.status("DELETE", type=ROLE_TYPE, name="desk") == 204
    with pytest.raises((LinkDetached, SendException)):
        sender.send(Message(body="a", durable=True))


def test_a_user_changes_the_own_password_and_nothing_else(root: Manager, ann: BlockingConnection) -> None:
    manager = Manager(ann)
    new = hash_password("new", iterations=MIN_ITERATIONS)
    assert manager.status("UPDATE", {"verifiers": [new]}, type=USER_TYPE, name="ann") == 200
    assert manager.status("UPDATE", {"verifiers": [new]}, type=USER_TYPE, name="bob") == 403
    assert manager.status("UPDATE", {"roles": ["administrator"]}, type=USER_TYPE, name="ann") == 403


def test_guesses_and_refusals_are_recorded_and_a_flood_is_counted(
    guarded: BrokerThread, ann: BlockingConnection, folder: Path
) -> None:
    for _ in range(5):
        with pytest.raises(ConnectionException):
            BlockingConnection(guarded.url, timeout=15, user="ann", password="x", allowed_mechs="PLAIN")
        with pytest.raises(LinkDetached):
            ann.create_sender("secret")

    def counted(broker: object) -> dict[tuple[str, int], int]:
        found: dict[tuple[str, int], int] = {}
        for act in read_acts(folder):
            key = act["operation"], act["status"]
            found[key] = found.get(key, 0) + act.get("count", 1)
        return found

    guarded.turn(lambda b, now_us: b.access.acts.flush(now_us))
    wanted = {("SIGN-IN", 401): 5, ("ATTACH", 403): 5}
    guarded.wait_until(lambda b: wanted.items() <= counted(b).items())
    lines = [act for act in read_acts(folder) if act["status"] in (401, 403)]
    assert len(lines) == 4, "one at once and one with the rest, of each"

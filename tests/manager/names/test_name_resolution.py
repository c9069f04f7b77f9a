"""Where names lead: IBM MQ's rules of queue name resolution, case by case and over random definitions; and
the way of a message through names that lead in a circle."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.amqp.message.sections import Data, Message, Properties, decode_message
from postroom.ledger.reading.stats import stats
from postroom.manager.headers.transmission_header import (
    TransmissionHeader,
    take_transmission,
)
from postroom.manager.kernel.errors import (
    DefinitionInvalid,
    LimitExceeded,
    ManagerError,
    NameNotAllowed,
    NameUnknown,
    NameUnusable,
    NotForInput,
    QueueExists,
    QueueInUse,
    QueueNotFound,
)
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.names.name_resolution import MAX_DEFINITIONS, MAX_RESOLVED, names_of
from postroom.manager.names.remote_queue_definition import RemoteQueueDefinition
from postroom.manager.names.remote_queues import ResolvedName
from postroom.model.mq import Reason, Undelivered, is_transient
from postroom.model.names import full_address, split_address
from tests.manager.over_ledger import LedgerWorld
from tests.manager.world import World

THIS = "QM1"


def a_world(**options: object) -> World:
    return World(ManagerOptions(queue_manager=THIS, **options))  # type: ignore[arg-type]


def define(world: World, name: str, **settings: str) -> None:
    world.manager.names.define(RemoteQueueDefinition(name, **settings), world.now_us)


@pytest.fixture
def world() -> World:
    """With everything that the cases below speak of."""
    world = a_world(default_transmission_queue="DEFAULT")
    world.queue("LOCAL")
    world.queue("NORMAL.QM")
    for name in ("QM2", "XMIT", "DEFAULT"):
        world.queue(name, usage="transmission")
    world.queue("TOPIC", kind="topic")
    world.queue("odd@name")
    define(world, "REMOTE", remote_queue="Q", remote_queue_manager="QM2")
    define(world, "THROUGH", remote_queue="Q", remote_queue_manager="QM2", transmission_queue="XMIT")
    define(world, "BY.ALIAS", remote_queue="Q", remote_queue_manager="ALIAS")
    define(world, "ALIAS", remote_queue_manager="QM2")
    define(world, "ALIAS.THROUGH", remote_queue_manager="QM3", transmission_queue="XMIT")
    define(world, "HERE", remote_queue_manager=THIS)
    define(world, "BACK", remote_queue="LOCAL", remote_queue_manager="HERE")
    define(world, "FAR", remote_queue="Q", remote_queue_manager="QM9")
    define(world, "BLANK", remote_queue="LOCAL")
    define(world, "OWN", remote_queue="LOCAL", remote_queue_manager=THIS)
    define(world, "MISSING.XMIT", remote_queue="Q", remote_queue_manager="QM2", transmission_queue="NONE")
    define(world, "WRONG.XMIT", remote_queue="Q", remote_queue_manager="QM2", transmission_queue="LOCAL")
    define(world, "A", remote_queue_manager="B")
    define(world, "B", remote_queue_manager="A")
    return world


LEADS = {
    ("LOCAL", ""): ("LOCAL", None),
    ("LOCAL", THIS): ("LOCAL", None),
    ("LOCAL", "HERE"): ("LOCAL", None),
    ("BACK", ""): ("LOCAL", None),
    ("XMIT", ""): ("XMIT", None),
    ("odd@name", ""): ("odd@name", None),
    ("REMOTE", ""): ("QM2", ("Q", "QM2")),
    ("REMOTE", THIS): ("QM2", ("Q", "QM2")),
    ("THROUGH", ""): ("XMIT", ("Q", "QM2")),
    ("BY.ALIAS", ""): ("QM2", ("Q", "QM2")),
    ("ANY", "QM2"): ("QM2", ("ANY", "QM2")),
    ("LOCAL", "QM2"): ("QM2", ("LOCAL", "QM2")),
    ("REMOTE", "QM2"): ("QM2", ("REMOTE", "QM2")),
    ("ANY", "ALIAS"): ("QM2", ("ANY", "QM2")),
    ("ANY", "ALIAS.THROUGH"): ("XMIT", ("ANY", "QM3")),
    ("ANY", "QM9"): ("DEFAULT", ("ANY", "QM9")),
    ("ANY", "NORMAL.QM"): ("DEFAULT", ("ANY", "NORMAL.QM")),
    ("FAR", ""): ("DEFAULT", ("Q", "QM9")),
}
"""(queue, queue manager) → the queue that it is put on, and what the header says."""

LEADS_NOWHERE = {
    ("NOTHING", ""): Reason.UNKNOWN_OBJECT_NAME,
    ("NOTHING", THIS): Reason.UNKNOWN_OBJECT_NAME,
    ("NOTHING", "HERE"): Reason.UNKNOWN_OBJECT_NAME,
    ("TOPIC", ""): Reason.UNKNOWN_OBJECT_NAME,
    ("ALIAS", ""): Reason.REMOTE_Q_NAME_ERROR,
    ("BLANK", ""): Reason.UNKNOWN_REMOTE_Q_MGR,
    ("OWN", ""): Reason.UNKNOWN_REMOTE_Q_MGR,
    ("ANY", "REMOTE"): Reason.UNKNOWN_REMOTE_Q_MGR,
    ("ANY", "A"): Reason.UNKNOWN_REMOTE_Q_MGR,
    ("MISSING.XMIT", ""): Reason.UNKNOWN_XMIT_Q,
    ("WRONG.XMIT", ""): Reason.XMIT_Q_USAGE_ERROR,
}


@pytest.mark.parametrize(("name", "expected"), LEADS.items(), ids=map(str, LEADS))
def test_where_a_name_leads(
    world: World, name: tuple[str, str], expected: tuple[str, tuple[str, str] | None]
) -> None:
    for _ in ("found", "kept in mind"):
        destination = names_of(world.manager.core).resolve(*name)
        assert isinstance(destination, ResolvedName)
        header = destination.header
        record = None if header is None else (header.queue, header.queue_manager)
        assert (destination.queue.name, record) == expected
        assert header is None or header.hops == 1


@pytest.mark.parametrize(("name", "reason"), LEADS_NOWHERE.items(), ids=map(str, LEADS_NOWHERE))
def test_names_that_lead_nowhere(world: World, name: tuple[str, str], reason: Reason) -> None:
    undelivered = names_of(world.manager.core).resolve(*name)
    assert isinstance(undelivered, Undelivered)
    assert undelivered.reason == reason, undelivered.description
    assert not is_transient(undelivered.reason)


@pytest.mark.parametrize(
    ("default", "reason"),
    [
        ("", Reason.UNKNOWN_REMOTE_Q_MGR),
        ("NONE", Reason.UNKNOWN_DEF_XMIT_Q),
        ("LOCAL", Reason.DEF_XMIT_Q_USAGE_ERROR),
    ],
)
def test_default_transmission_queue_that_is_none(default: str, reason: Reason) -> None:
    world = a_world(default_transmission_queue=default)
    world.queue("LOCAL")
    undelivered = names_of(world.manager.core).resolve("Q", "QM2")
    assert isinstance(undelivered, Undelivered) and undelivered.reason == reason


def test_names_that_are_too_long_are_not_kept_in_mind(world: World) -> None:
    for name in (("x" * 256, "QM2"), ("Q", "ü" * 128), ("x" * 256, "")):
        undelivered = names_of(world.manager.core).resolve(*name)
        assert isinstance(undelivered, Undelivered) and undelivered.reason == Reason.UNKNOWN_OBJECT_NAME
    assert isinstance(names_of(world.manager.core).resolve("x" * 255, "QM2"), ResolvedName)
    assert len(names_of(world.manager.core).resolved) == 1


def test_a_subscription_is_no_destination(world: World) -> None:
    world.queue("TOPIC::s", kind="subscription", topic="TOPIC", subscription="s")
    undelivered = names_of(world.manager.core).resolve("TOPIC::s", "")
    assert isinstance(undelivered, Undelivered) and undelivered.reason == Reason.UNKNOWN_OBJECT_NAME


# Random definitions.

NAMES = ("a", "b", "c", "d", "e", THIS)
some = st.sampled_from(("", *NAMES))
definitions = st.dictionaries(
    st.sampled_from(NAMES[:-1]),
    st.tuples(some, some, some).filter(lambda definition: bool(definition[0] or definition[1])),
)
queues = st.dictionaries(st.sampled_from(NAMES[:-1]), st.sampled_from(("normal", "transmission")))


@given(definitions, queues, some, st.sampled_from(NAMES), some)
def test_every_name_leads_somewhere_or_is_refused(
    defined: dict[str, tuple[str, str, str]], there: dict[str, str], default: str, name: str, manager: str
) -> None:
    world = a_world(default_transmission_queue=default)
    for queue, usage in there.items():
        world.queue(queue, usage=usage)
    for each, (rname, rqmname, xmitq) in defined.items():
        if each not in there:
            define(world, each, remote_queue=rname, remote_queue_manager=rqmname, transmission_queue=xmitq)
    known = {each: definition for each, definition in defined.items() if each not in there}
    expected = follow(known, there, default, name, manager)
    found = names_of(world.manager.core).resolve(name, manager)
    if isinstance(found, ResolvedName):
        header = found.header
        assert (found.queue.name, header and header.queue, header and header.queue_manager) == expected
        assert header is None or found.queue.definition.usage == "transmission"
        assert header is None or header.queue_manager != THIS or name in known or manager in known
    else:
        assert expected is None


def follow(
    known: dict[str, tuple[str, str, str]], there: dict[str, str], default: str, queue: str, manager: str
) -> tuple[str, str | None, str | None] | None:
    """The same rules by recursion: the set of names that have been passed shows a circle."""

    def step(
        queue: str, manager: str, passed: frozenset[tuple[str, str]]
    ) -> tuple[str, str | None, str | None] | None:
        if (queue, manager) in passed:
            return None
        passed = passed | {(queue, manager)}
        if manager in ("", THIS):
            if queue in there:
                return queue, None, None
            rname, rqmname, xmitq = known.get(queue, ("", "", ""))
            if not rname or rqmname in ("", THIS):
                return None
            return on(xmitq, rname, rqmname) if xmitq else step(rname, rqmname, passed)
        if there.get(manager) == "transmission":
            return manager, queue, manager
        if manager in known:
            rname, rqmname, xmitq = known[manager]
            if rname:
                return None
            return on(xmitq, queue, rqmname) if xmitq else step(queue, rqmname, passed)
        return on(default, queue, manager)

    def on(xmitq: str, queue: str, manager: str) -> tuple[str, str | None, str | None] | None:
        return (xmitq, queue, manager) if there.get(xmitq) == "transmission" else None

    return step(queue, manager, frozenset())


def test_a_long_way_is_followed_and_a_longer_one_is_not() -> None:
    world = a_world()
    world.queue("END", usage="transmission")
    for number in range(MAX_DEFINITIONS + 1):
        define(world, f"A{number}", remote_queue_manager=f"A{number - 1}" if number else "END")
    assert isinstance(names_of(world.manager.core).resolve("Q", f"A{MAX_DEFINITIONS - 2}"), ResolvedName)
    too_long = names_of(world.manager.core).resolve("Q", f"A{MAX_DEFINITIONS}")
    assert isinstance(too_long, Undelivered) and too_long.reason == Reason.UNKNOWN_REMOTE_Q_MGR
    assert str(MAX_DEFINITIONS) in too_long.description


def test_what_is_kept_in_mind_is_bounded_and_forgotten(world: World) -> None:
    names = names_of(world.manager.core)
    for number in range(MAX_RESOLVED + 10):
        names_of(world.manager.core).resolve(f"Q{number}", "QM2")
    assert len(names.resolved) <= MAX_RESOLVED
    assert isinstance(names_of(world.manager.core).resolve("Q", "QM2"), ResolvedName)
    world.manager.delete_queue("QM2", False, False, world.now_us)
    world.manager.delete_queue("DEFAULT", False, False, world.now_us)
    assert isinstance(names_of(world.manager.core).resolve("Q", "QM2"), Undelivered)
    world.queue("QM2")
    assert isinstance(names_of(world.manager.core).resolve("Q", "QM2"), Undelivered)
    queue = world.manager.queue("QM2")
    world.manager.update_queue(replace(queue.definition, usage="transmission"), world.now_us)
    assert isinstance(names_of(world.manager.core).resolve("Q", "QM2"), ResolvedName)
    world.put(queue)
    with pytest.raises(QueueInUse, match="usage"):
        world.manager.update_queue(replace(queue.definition, usage="normal"), world.now_us)
    define(world, "LATER", remote_queue="Q", remote_queue_manager="QM2")
    assert isinstance(names_of(world.manager.core).resolve("LATER", ""), ResolvedName)
    world.manager.names.alter(RemoteQueueDefinition("LATER", "Q", "QM2", "NONE"), world.now_us)
    assert isinstance(names_of(world.manager.core).resolve("LATER", ""), Undelivered)
    world.manager.names.delete("LATER", world.now_us)
    gone = names_of(world.manager.core).resolve("LATER", "")
    assert isinstance(gone, Undelivered) and gone.reason == Reason.UNKNOWN_OBJECT_NAME


# What clients say.


def test_addresses_of_clients(world: World) -> None:
    names = world.manager.names
    assert names.destination("Q@QM2").queue.name == "QM2"
    assert names.destination(f"LOCAL@{THIS}").queue.name == "LOCAL"
    assert names.destination("odd@name").queue.name == "odd@name"
    assert names.destination(f"odd@name@{THIS}").queue.name == "odd@name"
    assert [
        each for each in ("LOCAL", "odd@name", "REMOTE", "Q@QM2", "TOPIC", "NOTHING") if names.is_remote(each)
    ] == [
        "REMOTE",
        "Q@QM2",
    ]
    assert names.local(f"LOCAL@{THIS}") == "LOCAL"
    assert names.local("LOCAL@QM2") == "LOCAL@QM2"
    for address in ("@QM2", "Q@", "@"):
        assert not names.is_remote(address)
    with pytest.raises(NameUnknown, match=r"MQRC_UNKNOWN_REMOTE_Q_MGR \(2087\)"):
        names.destination("Q@A")
    with pytest.raises(NameUnusable, match=r"MQRC_XMIT_Q_USAGE_ERROR \(2092\)"):
        names.destination("WRONG.XMIT")
    with pytest.raises(NotForInput, match="2045"):
        names.check_readable("REMOTE")
    with pytest.raises(NotForInput):
        names.check_readable("Q@QM2")
    names.check_readable("NOTHING")


@given(st.text(max_size=20), st.text(st.characters(exclude_characters="@"), min_size=1, max_size=10))
def test_an_address_comes_apart_as_it_was_put_together(queue: str, manager: str) -> None:
    if queue:
        assert split_address(full_address(queue, manager)) == (queue, manager)
    assert full_address(queue, "") == queue


# Definitions.


def test_definitions_come_change_and_go(world: World) -> None:
    names = world.manager.names
    define(world, "REMOTE", remote_queue="Q", remote_queue_manager="QM2")  # the same again
    with pytest.raises(QueueExists, match="alter"):
        define(world, "REMOTE", remote_queue="OTHER", remote_queue_manager="QM2")
    with pytest.raises(QueueExists, match="queue 'LOCAL'"):
        define(world, "LOCAL", remote_queue="Q", remote_queue_manager="QM2")
    with pytest.raises(QueueExists, match="topic 'TOPIC'"):
        define(world, "TOPIC", remote_queue="Q", remote_queue_manager="QM2")
    with pytest.raises(QueueExists, match="remote queue 'REMOTE'"):
        world.queue("REMOTE")
    with pytest.raises(DefinitionInvalid, match="neither"):
        define(world, "NEW")
    with pytest.raises(DefinitionInvalid, match="belong to the broker"):
        define(world, "$new", remote_queue="Q")
    with pytest.raises(DefinitionInvalid, match="description"):
        define(world, "NEW", remote_queue="Q", description="x" * 257)
    with pytest.raises(NameNotAllowed):
        define(world, "NEW", remote_queue="a::b")
    with pytest.raises(QueueNotFound):
        names.find("NEW")
    with pytest.raises(QueueNotFound):
        names.alter(RemoteQueueDefinition("NEW", "Q"), world.now_us)
    with pytest.raises(QueueNotFound):
        names.delete("NEW", world.now_us)
    names.delete("REMOTE", world.now_us)
    world.queue("REMOTE")


def test_there_is_a_limit() -> None:
    world = a_world(max_remote_queues=1)
    define(world, "A", remote_queue="Q")
    with pytest.raises(LimitExceeded):
        define(world, "B", remote_queue="Q")


def test_dead_letters_stay_here(world: World) -> None:
    for key in ("dead_letter_queue", "expiry_queue"):
        policy = {"expiration_policy": "redirect" if key == "expiry_queue" else "discard"}
        for name in ("REMOTE", "DEAD@QM2", f"DEAD@{THIS}"):
            with pytest.raises(DefinitionInvalid, match="remote queue"):
                world.queue("NEW", **{key: name}, **policy)
        world.queue(f"NEW.{key}", **{key: "odd@name"}, **policy)
    world.queue("NEW", dead_letter_queue="DEAD")
    with pytest.raises(QueueExists, match="dead-letter"):
        define(world, "DEAD", remote_queue="Q", remote_queue_manager="QM2")


@pytest.mark.parametrize("name", ["TOPIC", "XMIT"])
def test_the_queue_managers_dead_letter_queue_is_a_queue_here(name: str) -> None:
    world = a_world(dead_letter_queue=name)
    world.manager.names.check_dead_letter_queue()
    with pytest.raises(QueueExists, match="dead-letter"):
        define(world, name, remote_queue="Q", remote_queue_manager="QM2")
    world.queue(name, **({"kind": "topic"} if name == "TOPIC" else {"usage": "transmission"}))
    with pytest.raises(NameUnusable):
        world.manager.names.check_dead_letter_queue()


@pytest.mark.parametrize("maintained", [False, True])
def test_definitions_survive_a_restart(maintained: bool, tmp_path: Path) -> None:
    world = LedgerWorld(ManagerOptions(queue_manager=THIS))
    world.queue("QM2", usage="transmission")
    define(world, "KEPT", remote_queue="Q", remote_queue_manager="QM2", description="kept")
    define(world, "GONE", remote_queue="Q", remote_queue_manager="QM2")
    world.turn()
    world.manager.names.alter(RemoteQueueDefinition("KEPT", "OTHER", "QM2"), world.now_us)
    world.manager.names.delete("GONE", world.now_us)
    world.turn()
    if maintained:
        world.maintain()
    world.restart()
    assert list(world.manager.names.definitions) == ["KEPT"]
    assert world.manager.names.find("KEPT").definition == RemoteQueueDefinition("KEPT", "OTHER", "QM2")
    destination = world.manager.names.destination("KEPT")
    assert destination.header == TransmissionHeader("OTHER", "QM2", 1)
    world.queue("NEXT")
    assert world.manager.queue("NEXT").id > world.manager.names.find("KEPT").id
    world.turn()
    world.check_whole(tmp_path)
    assert {each.queue for each in stats(tmp_path).queues} == {"QM2", "NEXT"}, "definitions hold nothing"


# On the way.

MESSAGE = Message(properties=Properties(reply_to="ANSWERS"), body=Data([b"x"])).encode()


def sent(world: World, address: str, reply_to: str | None) -> Message:
    message = Message(properties=Properties(reply_to=reply_to), body=Data([b"x"])).encode()
    names = world.manager.names
    return decode_message(names.sent_to(names.destination(address), message))


@pytest.mark.parametrize(
    ("reply_to", "completed"),
    [
        ("ANSWERS", f"ANSWERS@{THIS}"),
        ("odd@name", f"odd@name@{THIS}"),
        ("ANSWERS@QM7", "ANSWERS@QM7"),
        ("REMOTE", "Q@QM2"),
        ("BLANK", f"LOCAL@{THIS}"),
        ("ALIAS", f"ALIAS@{THIS}"),
        ("TOPIC", "TOPIC"),
        (None, None),
    ],
)
def test_the_reply_to_is_completed(world: World, reply_to: str | None, completed: str | None) -> None:
    message = sent(world, "REMOTE", reply_to)
    assert message.properties is not None and message.properties.reply_to == completed
    assert message.message_annotations["x-opt-transmission"] == ["Q", "QM2", 1]


def test_a_message_for_a_queue_here_stays_as_it_is(world: World) -> None:
    message = sent(world, "BACK", "ANSWERS")
    assert message.properties is not None and message.properties.reply_to == "ANSWERS"
    assert message.message_annotations == {}


def test_a_message_in_a_circle_comes_to_its_end() -> None:
    """Two queue managers, each of which thinks that the other has the queue."""
    one, two = (World(ManagerOptions(queue_manager=name, max_hops=5)) for name in ("QM1", "QM2"))
    for world, other in ((one, "QM2"), (two, "QM1")):
        world.queue(other, usage="transmission")
        define(world, "QM3", remote_queue_manager="QM3", transmission_queue=other)
    stored = one.manager.names.sent_to(one.manager.names.destination("Q@QM3"), MESSAGE)
    seen: list[int] = []
    here, there = two, one
    while True:
        header, bare = take_transmission(stored)
        assert header is not None and bare != stored
        seen.append(int(header.hops))
        found = names_of(here.manager.core).resolve(header.queue, header.queue_manager)
        assert isinstance(found, ResolvedName)
        on = names_of(here.manager.core).onward(found, header, bare)
        if isinstance(on, Undelivered):
            break
        stored, here, there = on, there, here
    assert seen == [1, 2, 3, 4, 5]
    assert on.reason == Reason.UNKNOWN_REMOTE_Q_MGR and "max_hops" in on.description
    reply = decode_message(stored).properties
    assert reply is not None and reply.reply_to == "ANSWERS@QM1", "only the first queue manager completes it"


def test_what_has_come_to_its_queue_manager_is_put_as_it_was(world: World) -> None:
    header = TransmissionHeader("LOCAL", THIS, 3)
    found, bare = take_transmission(header.put_on(MESSAGE))
    assert found == header
    destination = names_of(world.manager.core).resolve(header.queue, header.queue_manager)
    assert isinstance(destination, ResolvedName)
    assert names_of(world.manager.core).onward(destination, header, bare) == MESSAGE


def test_errors_of_names_say_their_condition() -> None:
    conditions = {NameUnknown: "amqp:not-found", NameUnusable: "amqp:precondition-failed"}
    conditions[NotForInput] = "amqp:not-allowed"
    for error, condition in conditions.items():
        assert issubclass(error, ManagerError) and error.condition == condition

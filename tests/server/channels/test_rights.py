"""A channel puts in the name of its user [MCAUSER], or of the message's [PUTAUT]: what that may not put is
undelivered with MQRC_NOT_AUTHORIZED; and who may not call a channel doesn't get one."""

from typing import Any

import pytest

from postroom.amqp.message.message_fields import MessageFields
from postroom.amqp.message.message_head import scan_head
from postroom.manager.headers.dead_letter_header import header_of
from postroom.model.mq import Reason
from postroom.server.configuration.passwords import MIN_ITERATIONS, hash_password
from tests.server.channels.channel_pair import start
from tests.server.channels.refusing_partner import make
from tests.server.channels.stations import Stations

USERS = {name: hash_password(name, iterations=MIN_ITERATIONS) for name in ("root", "mca")}
QUEUES = [{"name": "in"}, {"name": "secret"}, {"name": "dead"}]
CALLERS = {"name": "callers", "members": ["anonymous"], "grants": ["channel on queue manager"]}


def guarded(receiver: dict[str, Any], *roles: dict[str, Any], dead_letter_queue: str = "dead") -> Stations:
    """A, which calls B as `anonymous`; at B `mca` may put on "in"."""
    own = [
        {"name": "administrator", "members": ["root"]},
        {"name": "agents", "members": ["mca"], "grants": ["put on in"]},
        *roles,
    ]
    manager = {"dead_letter_queue": dead_letter_queue}
    return make(None, receiver, users=USERS, role=own, queue=QUEUES, queue_manager=manager)


def reasons(world: Stations) -> list[int]:
    """Why B couldn't put what is on its dead-letter queue."""
    found = []
    for letter in world.nodes["B"].manager.queues["dead"].bands[4].waiting():
        assert letter.body is not None
        head = scan_head(letter.body)
        fields = MessageFields(letter.priority, True, 0, letter.body[head.bare_offset :], None)
        header = header_of(fields.annotation("x-opt-dead-letter"))
        assert header is not None
        found.append(header.reason)
    return found


@pytest.mark.parametrize("durable", [True, False])
def test_what_the_channels_user_may_not_put_is_undelivered(durable: bool) -> None:
    world = guarded({"user": "mca"}, CALLERS)
    for queue in ("in@B", "secret@B"):
        world.put("A", queue, "a message", durable=durable)
    start(world)
    assert world.states() == ("RUNNING", "RUNNING")
    assert (world.depth("B", "in"), world.depth("B", "secret"), world.depth("A", "B")) == (1, 0, 0)
    assert reasons(world) == [Reason.NOT_AUTHORIZED]


def test_without_a_user_of_its_own_a_channel_puts_as_who_has_called() -> None:
    world = guarded({}, {**CALLERS, "grants": ["channel on queue manager", "put on secret"]})
    for queue in ("in@B", "secret@B"):
        world.put("A", queue, "a message")
    start(world)
    assert (world.depth("B", "in"), world.depth("B", "secret")) == (0, 1)
    assert reasons(world) == [Reason.NOT_AUTHORIZED]


@pytest.mark.parametrize(("user", "delivered"), [("", (0, 1)), ("mca", (1, 0))])
def test_the_roles_of_the_callers_token_count(user: str, delivered: tuple[int, int]) -> None:
    by_token = {"name": "by-token", "grants": ["channel on queue manager", "put on secret"]}
    world = guarded({"user": user}, by_token)
    world.token_roles = ("by-token",)
    for queue in ("in@B", "secret@B"):
        world.put("A", queue, "a message")
    start(world)
    assert (world.depth("B", "in"), world.depth("B", "secret")) == delivered, "they are the caller's alone"
    assert reasons(world) == [Reason.NOT_AUTHORIZED]


def test_a_token_gives_who_a_message_names_nothing() -> None:
    by_token = {"name": "by-token", "grants": ["channel on queue manager", "put on secret"]}
    world = guarded({"put_authority": "context"}, by_token)
    world.token_roles = ("by-token",)
    world.put("A", "secret@B", "a message", user_id=b"mca")
    world.put("A", "secret@B", "a message")
    start(world)
    assert world.depth("B", "secret") == 1
    assert reasons(world) == [Reason.NOT_AUTHORIZED]


def test_without_a_dead_letter_queue_the_channel_stops_and_nothing_is_lost() -> None:
    world = guarded({"user": "mca"}, CALLERS, dead_letter_queue="")
    world.put("A", "secret@B", "a message")
    start(world)
    assert world.state("A") == "RETRYING"
    assert (world.depth("B", "secret"), world.depth("A", "B")) == (0, 1)


def test_who_may_not_call_a_channel_gets_none() -> None:
    world = guarded({"user": "mca"})
    world.put("A", "in@B", "a message")
    start(world)
    assert "RUNNING" not in world.states()
    assert (world.depth("B", "in"), world.depth("A", "B")) == (0, 1)

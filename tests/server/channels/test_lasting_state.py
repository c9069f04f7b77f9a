"""What of a channel lasts: states over restarts, definitions, batches in doubt, what management tells."""

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import fields

from postroom.amqp.errors import NOT_ALLOWED, AmqpError
from postroom.manager.kernel.errors import ChannelInUse, ChannelNotFound, ChannelNotInDoubt, LimitExceeded
from postroom.model.channel import ChannelDefinition
from postroom.model.channel_states import ChannelState
from postroom.model.entity_types import CHANNEL_TYPE
from postroom.server.channels.instance import StopMode
from postroom.server.configuration.channels import ChannelConfig
from postroom.server.management import Later, Request, Response
from tests.server.channels.channel_pair import AT_A, SENDER, make, start, stop
from tests.server.channels.stations import NO_ROUTE, Stations

# What survives.


def test_stopped_survives_a_restart(world: Stations) -> None:
    stop(world)
    world.restart("A")
    assert world.state("A") == "STOPPED"
    assert world.channel("A").reason == "stopped by a command"
    assert world.nodes["A"].manager.queues["B"].switches.get_inhibited
    world.put("A", "in@B", "one")
    assert world.state("A") == "STOPPED"


def test_retrying_survives_a_restart_with_its_counters(world: Stations) -> None:
    world.unreachable = {"B"}
    world.put("A", "in@B", "one")
    world.pass_s(10)
    before = world.channel("A")
    world.restart("A")
    after = world.channel("A")
    assert after is not before and after.state == ChannelState.RETRYING
    assert (after.short_left, after.long_left, after.retry_us) == (0, 2, before.retry_us)
    world.unreachable.clear()
    world.pass_s(10)
    assert world.states() == ("RUNNING", "RUNNING") and world.depth("B", "in") == 1
    world.restart("A")
    assert world.channel("A").short_left == 2  # what has flowed is remembered, too


def test_an_attempt_that_a_restart_interrupts_was_one(world: Stations) -> None:
    world.unreachable = {"B"}
    world.put("A", "in@B", "one")
    channel = world.channel("A")
    world.now_us += 10_000_000
    world.broker("A").on_time(world.now_us)
    assert channel.state == ChannelState.STARTING
    world.restart("A")
    assert world.state("A") == "RETRYING"


def test_stopping_is_stopped_after_a_restart(world: Stations) -> None:
    world = make({"batch_interval_ms": 60_000})
    world.put("A", "in@B", "one")
    world.channel("A").stop(StopMode.QUIESCE, False, world.now_us)
    world.broker("A").ledger.submit()
    world.broker("A").completed(world.now_us)
    world.restart("A")
    assert world.state("A") == "STOPPED"


def test_what_ran_is_triggered_by_what_is_left(world: Stations) -> None:
    world.put("A", "in@B", "one")
    world.restart("A")
    assert world.states() == ("INACTIVE", "INACTIVE")
    world.restart("B")
    world.put("A", "in@B", "two")
    assert world.states() == ("RUNNING", "RUNNING") and world.depth("B", "in") == 2


# Definitions.


def test_a_running_channel_is_neither_deleted_nor_reset_nor_resolved(world: Stations) -> None:
    world.put("A", "in@B", "one")
    channels = world.broker("A").channels
    commands: list[Callable[[], None]] = [
        lambda: channels.delete("A.B", world.now_us),
        lambda: channels.reset("A.B", 1, world.now_us),
        lambda: channels.resolve("A.B", True, world.now_us),
    ]
    for command in commands:
        with pytest.raises(ChannelInUse, match=r"is running: .* stop it first"):
            command()


def test_a_channel_that_is_deleted_is_triggered_no_more(world: Stations) -> None:
    channels = world.broker("A").channels
    channels.delete("A.B", world.now_us)
    world.put("A", "in@B", "one")
    assert channels.all() == [] and world.dialled == []
    assert not world.nodes["A"].manager.queues["B"].schedule.armed
    with pytest.raises(ChannelNotFound):
        channels.find("A.B")
    world.restart("A")


def test_another_transmission_queue_triggers_from_then_on(world: Stations) -> None:
    manager = world.nodes["A"].manager
    other = replace(manager.options.queue_defaults, name="other", usage="transmission")
    manager.create_queue(other, world.now_us)
    changed = replace(world.channel("A").definition, transmission_queue="other")
    world.broker("A").channels.alter(changed, world.now_us)
    world.nodes["A"].turn_wanted = True
    world.settle()
    assert (manager.queues["B"].schedule.armed, manager.queues["other"].schedule.armed) == (False, True)


def test_new_settings_count_from_the_next_start_on(world: Stations) -> None:
    world.put("A", "in@B", "one")
    instance = world.channel("A").instance
    assert instance is not None
    changed = replace(world.channel("A").definition, batch_size=7)
    world.broker("A").channels.alter(changed, world.now_us)
    assert instance.definition.batch_size == 50
    stop(world)
    start(world)
    again = world.channel("A").instance
    assert again is not None and again.definition.batch_size == 7


def test_who_calls_whom_changes_only_at_rest() -> None:
    world = make({"type": "server"})
    world.put("A", "in@B", "one")
    changed = replace(world.channel("A").definition, connection="")
    with pytest.raises(ChannelInUse, match="who calls whom"):
        world.broker("A").channels.alter(changed, world.now_us)
    stop(world)
    world.broker("A").channels.alter(changed, world.now_us)


def test_a_reset_of_the_sender_resets_both_ends(world: Stations) -> None:
    world.put("A", "in@B", "one", "two")
    stop(world)
    world.broker("A").channels.reset("A.B", 100, world.now_us)
    start(world)
    world.put("A", "in@B", "three")
    numbers = [world.nodes[name].manager.channels.sync("A.B").last_sequence for name in "AB"]
    assert numbers == [100, 100]


def test_a_reset_of_the_receiver_alone_stops_the_sender(world: Stations) -> None:
    world.put("A", "in@B", "one", "two")
    stop(world)
    world.broker("B").channels.reset("A.B", 50, world.now_us)
    start(world)
    assert world.states() == ("STOPPED", "INACTIVE")
    assert "sequence" in world.channel("A").reason


def test_there_is_nothing_to_resolve_without_doubt(world: Stations) -> None:
    with pytest.raises(ChannelNotInDoubt):
        world.broker("A").channels.resolve("A.B", True, world.now_us)


def in_doubt() -> Stations:
    """A has asked for the confirmation of a batch that B has, and was stopped before the answer."""
    world = make()
    start(world)
    world.frozen = {"B"}
    world.put("A", "in@B", "one")
    stop(world, mode=StopMode.TERMINATE)
    world.frozen = set()
    world.settle()
    assert world.states() == ("STOPPED", "INACTIVE")
    assert (world.depth("A", "B"), world.depth("B", "in")) == (1, 1)
    return world


def test_what_is_in_doubt_is_solved_at_the_next_start() -> None:
    world = in_doubt()
    start(world)
    assert world.states() == ("RUNNING", "RUNNING")
    assert (world.depth("A", "B"), world.depth("B", "in")) == (0, 1)


def test_a_channel_in_doubt_starts_after_a_restart_without_a_message() -> None:
    world = make()
    start(world)
    world.frozen = {"B"}
    world.put("A", "in@B", "one")
    world.restart("A")
    world.frozen = set()
    world.settle()
    world.pass_s(10)  # B may take the connection for the one before
    assert world.states() == ("RUNNING", "RUNNING")
    assert (world.depth("A", "B"), world.depth("B", "in")) == (0, 1)


def test_what_is_in_doubt_can_be_resolved_by_hand() -> None:
    world = in_doubt()
    world.broker("A").channels.resolve("A.B", True, world.now_us)
    assert world.depth("A", "B") == 0
    start(world)
    assert world.states() == ("RUNNING", "RUNNING") and world.depth("B", "in") == 1


def test_a_channel_in_doubt_is_neither_reset_nor_deleted() -> None:
    world = in_doubt()
    channels = world.broker("A").channels
    commands: list[Callable[[], None]] = [
        lambda: channels.reset("A.B", 1, world.now_us),
        lambda: channels.delete("A.B", world.now_us),
    ]
    for command in commands:
        with pytest.raises(ChannelInUse, match="in doubt"):
            command()
    assert channels.find("A.B").state == ChannelState.STOPPED


def test_a_call_from_outside_names_what_is_wrong(world: Stations) -> None:
    channels = world.broker("A").channels
    world.put("A", "in@B", "one")
    (binding,) = world.bindings("A")
    with pytest.raises(AmqpError, match="can't be sent to") as refused:
        channels.partner_attaches("A.B", "B", False, binding, world.now_us)
    assert refused.value.condition == NOT_ALLOWED


def test_every_attribute_that_is_told_of_is_shown(world: Stations) -> None:
    management = world.broker("A").management

    def body_of(operation: str, **properties: object) -> Any:
        answer = management.perform(Request({"operation": operation, **properties}, None), world.now_us)
        assert isinstance(answer, Response) and answer.status == 200
        return answer.body

    record = body_of("GET-ATTRIBUTES", entityType=CHANNEL_TYPE)[CHANNEL_TYPE]
    shown = body_of("READ", type=CHANNEL_TYPE, name="A.B")
    assert sorted(record) == sorted(shown)
    settings = {each.name for each in fields(ChannelConfig)}
    assert settings == {each.name for each in dataclasses.fields(ChannelDefinition)}
    assert settings - {"type"} < set(shown) and shown["channel_type"] == "sender"


def test_no_more_channels_than_the_limit() -> None:
    limits = {"idle_timeout_ms": 0, "max_channels": 1}
    world = Stations(A={**AT_A, "limits": limits, "channel": [SENDER]})
    with pytest.raises(LimitExceeded, match="max_channels"):
        world.broker("A").channels.define(ChannelDefinition("A.C", "receiver"), world.now_us)


def test_an_orderly_stop_ends_the_runs(world: Stations) -> None:
    world.put("A", "in@B", "one")
    world.broker("A").channels.shut_down(world.now_us)
    world.nodes["A"].turn_wanted = True
    world.settle()
    assert world.state("B") == "INACTIVE" and world.lines == []
    world.restart("A")
    assert world.state("A") == "INACTIVE"


def test_ping_opens_a_connection_and_closes_it(world: Stations) -> None:
    answers: list[Response] = []
    for unreachable in (set[str](), {"B"}):
        world.unreachable = unreachable
        request = Request({"operation": "PING", "type": CHANNEL_TYPE, "name": "A.B"}, None)
        later = world.broker("A").management.perform(request, world.now_us)
        assert isinstance(later, Later)
        later.then(lambda answer, _: answers.append(answer))
        world.nodes["A"].turn_wanted = True
        world.settle()
    assert [answer.status for answer in answers] == [200, 502]
    assert answers[0].body == {"partner": "B", "took_us": 0} and answers[1].description == NO_ROUTE
    assert world.lines == [] and world.states() == ("INACTIVE", "INACTIVE")

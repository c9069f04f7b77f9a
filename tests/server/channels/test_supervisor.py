"""The supervisor of channels: starts, triggers, stops, retries, calls, what survives a restart; in virtual
time, with the real agents at both ends.
"""

from dataclasses import replace

import pytest

from postroom.model.channel_states import ChannelState, Verdict
from postroom.server.channels.instance import StopMode
from tests.server.channels.channel_pair import AT_A, AT_B, RECEIVER, SENDER, make, start, stop
from tests.server.channels.stations import NO_ROUTE, US_PER_S, Stations


def test_a_message_on_its_transmission_queue_triggers_a_channel(world: Stations) -> None:
    assert world.states() == ("INACTIVE", "INACTIVE")
    world.put("A", "in@B", "one", "two")
    assert world.states() == ("RUNNING", "RUNNING")
    assert (world.depth("A", "B"), world.depth("B", "in")) == (0, 2)
    assert [world.channel(name).instance.partner for name in "AB"] == ["B", "A"]  # type: ignore[union-attr]


def test_what_lies_on_the_queue_at_the_start_triggers_it() -> None:
    world = make({"triggered": False})
    world.put("A", "in@B", "one")
    assert world.states() == ("INACTIVE", "INACTIVE")
    channels = world.broker("A").channels
    channels.alter(replace(world.channel("A").definition, triggered=True), world.now_us)
    world.nodes["A"].turn_wanted = True
    world.settle()
    assert world.states() == ("RUNNING", "RUNNING") and world.depth("B", "in") == 1


def test_a_transmission_queue_that_is_made_later_triggers_too() -> None:
    settings = {**AT_A, "queue": [], "channel": [SENDER]}
    world = Stations(A=settings, B={**AT_B, "channel": [RECEIVER]})
    manager = world.nodes["A"].manager
    definition = replace(manager.options.queue_defaults, name="B", usage="transmission")
    manager.create_queue(definition, world.now_us)
    world.put("A", "in@B", "one")
    assert world.states() == ("RUNNING", "RUNNING")


def test_an_untriggered_channel_waits_for_start() -> None:
    world = make({"triggered": False})
    world.put("A", "in@B", "one")
    assert world.state("A") == "INACTIVE" and world.dialled == []
    start(world)
    assert world.states() == ("RUNNING", "RUNNING")


# The disconnect interval.


def test_the_disconnect_interval_ends_it_and_a_message_starts_it_again(world: Stations) -> None:
    world.put("A", "in@B", "one")
    world.pass_s(99)
    world.put("A", "in@B", "two")  # the interval begins again
    world.pass_s(99)
    assert world.states() == ("RUNNING", "RUNNING")
    world.pass_s(2)
    assert world.states() == ("INACTIVE", "INACTIVE")
    assert world.lines == []
    world.put("A", "in@B", "three")
    assert world.states() == ("RUNNING", "RUNNING") and world.depth("B", "in") == 3


def test_without_a_disconnect_interval_it_stays() -> None:
    world = make({"disconnect_interval_s": 0})
    world.put("A", "in@B", "one")
    world.pass_s(1_000_000)
    assert world.states() == ("RUNNING", "RUNNING")


def test_heartbeats_find_a_partner_that_is_gone() -> None:
    world = make({"heartbeat_interval_s": 30})
    world.put("A", "in@B", "one")
    world.pass_s(50)  # without messages, the connection is kept alive
    assert world.states() == ("RUNNING", "RUNNING")
    world.cut("A", "B")  # nobody hears of it
    world.pass_s(14)
    assert world.state("A") == "RUNNING"
    world.pass_s(17)
    assert world.state("A") == "RETRYING" and "nothing came for 30000 ms" in world.channel("A").reason


# Retries.


def test_short_retries_then_long_ones_then_it_is_stopped(world: Stations) -> None:
    world.unreachable = {"B"}
    world.put("A", "in@B", "one")
    seen, waits = [], []
    for _ in range(5):
        channel = world.channel("A")
        seen.append((world.state("A"), channel.short_left, channel.long_left))
        waits.append((channel.retry_us - world.now_us) // US_PER_S)
        world.pass_s(max(0, waits[-1]))
    assert waits[:4] == [10, 10, 60, 60]
    assert seen == [
        ("RETRYING", 1, 2),
        ("RETRYING", 0, 2),
        ("RETRYING", 0, 1),
        ("RETRYING", 0, 0),
        ("STOPPED", 0, 0),
    ]
    assert world.channel("A").reason == f"no retry is left: {NO_ROUTE}"
    assert len(world.dialled) == 5
    world.unreachable.clear()
    world.pass_s(100_000)
    assert world.state("A") == "STOPPED"
    start(world)
    assert world.states() == ("RUNNING", "RUNNING")
    assert (world.channel("A").short_left, world.channel("A").long_left) == (2, 2)


def test_an_interval_of_0_does_not_spin() -> None:
    world = make({"short_retry_interval_s": 0})
    world.unreachable = {"B"}
    start(world)
    assert world.state("A") == "RETRYING" and world.channel("A").retry_us == world.now_us + 100_000


def test_retries_are_counted_anew_only_when_a_message_has_flowed() -> None:
    world = make({"batch_interval_ms": 1000})
    world.unreachable = {"B"}
    start(world)
    assert world.channel("A").short_left == 1
    world.unreachable = set()
    world.pass_s(10)
    assert world.states() == ("RUNNING", "RUNNING")
    assert world.channel("A").short_left == 1  # a connection alone changes nothing
    world.cut()
    assert world.state("A") == "RETRYING" and world.channel("A").short_left == 0
    world.put("A", "in@B", "one")
    world.pass_s(20)
    assert world.depth("B", "in") == 1
    assert world.channel("A").short_left == 2


def test_a_message_triggers_nothing_while_it_retries(world: Stations) -> None:
    world.unreachable = {"B"}
    world.put("A", "in@B", "one")
    dialled = len(world.dialled)
    world.put("A", "in@B", "two")
    assert len(world.dialled) == dialled and world.state("A") == "RETRYING"


def test_start_tries_again_at_once_and_keeps_the_counters(world: Stations) -> None:
    world.unreachable = {"B"}
    world.put("A", "in@B", "one")
    start(world)
    assert world.state("A") == "RETRYING" and world.channel("A").short_left == 0


def test_what_lasts_is_not_retried(world: Stations) -> None:
    world.unreachable = {"B"}
    world.failure = ("its certificate is not trusted", True)
    world.put("A", "in@B", "one")
    assert world.state("A") == "STOPPED"
    assert world.channel("A").reason == "its certificate is not trusted"


def test_a_broken_connection_is_retried_and_nothing_is_lost_or_doubled(world: Stations) -> None:
    world.put("A", "in@B", "one", "two")
    world.cut()
    assert world.states() == ("RETRYING", "INACTIVE")
    world.put("A", "in@B", "three")
    world.pass_s(10)
    assert world.states() == ("RUNNING", "RUNNING") and world.depth("B", "in") == 3


def test_a_partner_without_the_channel_stops_it() -> None:
    world = Stations(A={**AT_A, "channel": [SENDER]}, B=AT_B)
    world.put("A", "in@B", "one")
    assert world.state("A") == "STOPPED"
    assert "there is no channel 'A.B'" in world.channel("A").reason


def test_a_partner_whose_channel_is_of_the_wrong_type_stops_it() -> None:
    wrong = {**SENDER, "connection": "amqp://A:1", "transmission_queue": "A", "triggered": False}
    world = Stations(A={**AT_A, "channel": [SENDER]}, B={**AT_B, "channel": [wrong]})
    world.put("A", "in@B", "one")
    assert world.state("A") == "STOPPED"
    assert "is a postroom sender here" in world.channel("A").reason


# Commands.


@pytest.mark.parametrize("mode", list(StopMode), ids=lambda mode: mode.name)
def test_a_stopped_channel_keeps_its_messages_until_it_is_started(world: Stations, mode: StopMode) -> None:
    world.put("A", "in@B", "one")
    stop(world, mode=mode)
    assert world.states() == ("STOPPED", "INACTIVE")
    assert world.lines == []
    world.put("A", "in@B", "two")
    world.pass_s(1000)
    assert world.state("A") == "STOPPED" and world.depth("A", "B") == 1
    assert start(world) == Verdict.DONE
    assert world.states() == ("RUNNING", "RUNNING") and world.depth("B", "in") == 2


def test_the_transmission_queue_of_a_stopped_channel_gives_nothing_out(world: Stations) -> None:
    queue = world.nodes["A"].manager.queues["B"]
    stop(world)
    assert queue.switches.get_inhibited
    start(world)
    assert not queue.switches.get_inhibited


@pytest.mark.parametrize("mode", list(StopMode), ids=lambda mode: mode.name)
def test_status_inactive_lets_the_next_message_trigger_it(mode: StopMode) -> None:
    world = make({"batch_interval_ms": 60_000})
    world.put("A", "in@B", "one")
    assert world.depth("A", "B") == 1  # the batch is open
    stop(world, mode=mode, to_inactive=True)
    assert world.state("A") == "INACTIVE"
    world.pass_s(10)
    assert world.state("A") == "INACTIVE"  # what lies there already is no trigger
    world.put("A", "in@B", "two")
    world.pass_s(60)
    assert world.states() == ("RUNNING", "RUNNING") and world.depth("B", "in") == 2


def test_quiesce_ends_after_the_batch() -> None:
    world = make({"batch_interval_ms": 60_000})
    world.put("A", "in@B", "one")
    world.channel("A").stop(StopMode.QUIESCE, False, world.now_us)
    assert world.state("A") == "STOPPING"
    world.nodes["A"].turn_wanted = True
    world.settle()
    assert world.state("A") == "STOPPED"
    assert (world.depth("A", "B"), world.depth("B", "in")) == (0, 1)


@pytest.mark.parametrize("mode", [StopMode.FORCE, StopMode.TERMINATE], ids=lambda mode: mode.name)
def test_force_and_terminate_back_out_what_was_not_asked_for(mode: StopMode) -> None:
    world = make({"batch_interval_ms": 60_000})
    world.put("A", "in@B", "one")
    stop(world, mode=mode)
    assert world.states() == ("STOPPED", "INACTIVE")
    assert (world.depth("A", "B"), world.depth("B", "in")) == (1, 0)


def test_a_stopped_receiver_makes_its_partner_retry(world: Stations) -> None:
    stop(world, "B")
    world.put("A", "in@B", "one")
    assert world.states() == ("RETRYING", "STOPPED")
    assert "is stopped here" in world.channel("A").reason
    assert start(world, "B") == Verdict.DONE
    assert world.state("B") == "INACTIVE"
    world.pass_s(10)
    assert world.states() == ("RUNNING", "RUNNING")


def test_a_receiver_that_is_stopped_while_it_runs_makes_its_partner_retry(world: Stations) -> None:
    world.put("A", "in@B", "one")
    stop(world, "B")
    assert world.states() == ("RETRYING", "STOPPED")


def test_start_of_a_running_channel_is_refused(world: Stations) -> None:
    world.put("A", "in@B", "one")
    assert start(world) == Verdict.IN_USE
    assert world.states() == ("RUNNING", "RUNNING")


def test_stop_while_it_connects_gives_the_connection_up(world: Stations) -> None:
    channel = world.channel("A")
    channel.start(world.now_us)
    broker = world.broker("A")
    broker.end_turn(world.now_us)
    (outward,) = broker.channels.wanted
    assert channel.state == ChannelState.INITIALIZING
    channel.stop(StopMode.QUIESCE, False, world.now_us)
    broker.end_turn(world.now_us)
    assert outward.over and broker.connect_outward(outward, "B", world.now_us, world.now_us) is None
    outward.fail("too late", True, world.now_us)
    assert (channel.state, channel.reason) == (ChannelState.STOPPED, "stopped by a command")


# Who calls.


def test_a_channel_more_than_there_may_be_connections_waits_for_its_turn() -> None:
    second = {**SENDER, "name": "A.B.2", "transmission_queue": "B2"}
    queues = [{"name": "B", "usage": "transmission"}, {"name": "B2", "usage": "transmission"}]
    limits = {"idle_timeout_ms": 0, "max_outgoing_connections": 1}
    world = Stations(
        A={"queue": queues, "limits": limits, "channel": [SENDER, second]},
        B={**AT_B, "channel": [RECEIVER, {**RECEIVER, "name": "A.B.2"}]},
    )
    world.put("A", "in@B", "one")
    world.channel("A", "A.B.2").start(world.now_us)
    world.nodes["A"].turn_wanted = True
    world.settle()
    assert (world.state("A"), world.state("A", "A.B.2")) == ("RUNNING", "STARTING")
    stop(world)
    assert (world.state("A"), world.state("A", "A.B.2")) == ("STOPPED", "RUNNING")


def test_a_partner_that_comes_back_takes_over_what_it_left(world: Stations) -> None:
    world.put("A", "in@B", "one")
    world.cut("B")  # who has not noticed
    assert world.states() == ("RETRYING", "RUNNING")
    old = world.channel("B").instance
    world.put("A", "in@B", "two")
    world.pass_s(10)
    assert world.states() == ("RUNNING", "RUNNING")
    assert world.channel("B").instance is not old and world.depth("B", "in") == 2


def test_another_partner_is_told_that_it_is_in_use() -> None:
    third = {**AT_A, "channel": [SENDER]}
    world = Stations(A={**AT_A, "channel": [SENDER]}, B={**AT_B, "channel": [RECEIVER]}, C=third)
    world.put("A", "in@B", "one")
    world.put("C", "in@B", "two")
    assert (world.state("A"), world.state("B"), world.state("C")) == ("RUNNING", "RUNNING", "RETRYING")
    assert "is running here, with 'A'" in world.channel("C").reason
    stop(world)
    world.pass_s(10)
    assert world.state("C") == "RUNNING" and world.depth("B", "in") == 2


def test_a_requester_asks_a_server_to_send() -> None:
    server = {"name": "A.B", "type": "server", "transmission_queue": "B", "disconnect_interval_s": 100}
    requester = {"name": "A.B", "type": "requester", "connection": "amqp://A:1"}
    world = Stations(A={**AT_A, "channel": [server]}, B={**AT_B, "channel": [requester]})
    world.put("A", "in@B", "one")
    assert world.state("A") == "INACTIVE"  # it has nobody to call
    start(world, "B")
    assert world.states() == ("RUNNING", "RUNNING") and world.depth("B", "in") == 1
    world.cut()
    assert world.states() == ("INACTIVE", "INACTIVE")
    world.pass_s(100_000)
    assert world.states() == ("INACTIVE", "INACTIVE")  # a requester isn't tried again
    assert world.dialled == ["amqp://A:1"]


def test_a_sender_that_a_requester_asks_calls_back() -> None:
    requester = {"name": "A.B", "type": "requester", "connection": "amqp://A:1"}
    world = Stations(
        A={**AT_A, "channel": [{**SENDER, "triggered": False}]}, B={**AT_B, "channel": [requester]}
    )
    world.put("A", "in@B", "one")
    start(world, "B")
    assert world.states() == ("RUNNING", "RUNNING") and world.depth("B", "in") == 1
    assert world.dialled == ["amqp://A:1", "amqp://B:1"]


def test_a_server_with_a_connection_calls() -> None:
    world = make({"type": "server"}, {"type": "receiver"})
    world.put("A", "in@B", "one")
    assert world.states() == ("RUNNING", "RUNNING")


def test_two_queue_managers_of_one_name_refuse_each_other() -> None:
    world = Stations(
        A={**AT_A, "channel": [SENDER], "container_id": "same"},
        B={**AT_B, "channel": [RECEIVER], "container_id": "same"},
    )
    world.channel("A").start(world.now_us)
    world.nodes["A"].turn_wanted = True
    world.settle()
    assert world.states() == ("STOPPED", "INACTIVE")
    assert "same" in world.channel("A").reason


def test_a_partner_can_attach_nothing_to_a_connection_that_it_was_called_on(world: Stations) -> None:
    world.put("A", "in@B", "one")
    (there,) = world.bindings("B")
    session = there.engine.sessions()[0]
    link = session.attach_sender("thief", None, None)
    there.touch()
    world.settle()
    assert link.gone and world.states() == ("RUNNING", "RUNNING")

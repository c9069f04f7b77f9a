"""Commands, failures and time in any order: whatever happens to a channel, once it is left in peace every
persistent message has arrived, once and in order.
"""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postroom.amqp.message.sections import Value, decode_message
from postroom.manager.kernel.effects import Sink
from postroom.manager.kernel.options import ConsumerOptions
from postroom.model.channel_states import ACTIVE
from postroom.server.channels.instance import StopMode
from tests.sampling import examples
from tests.server.channels.channel_pair import make
from tests.server.channels.stations import Stations

NAMES = st.sampled_from("AB")

ACTIONS = st.one_of(
    st.tuples(st.just("put"), st.integers(1, 5)),
    st.tuples(st.just("start"), NAMES),
    st.tuples(st.just("stop"), NAMES, st.sampled_from(StopMode), st.booleans()),
    st.tuples(st.just("cut"), st.sampled_from(["", "A", "B", "AB"])),
    st.tuples(st.just("restart"), NAMES),
    st.tuples(st.just("pass"), st.floats(0, 130)),
    st.tuples(st.just("reach"), st.booleans()),
    st.tuples(st.just("freeze"), st.sampled_from(["", "A", "B"])),
)


class Course:
    """One run of actions."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.world: Stations = make({"heartbeat_interval_s": 20, **settings})
        self.sent: list[str] = []

    def do(self, action: tuple[Any, ...]) -> None:
        kind, *arguments = action
        getattr(self, f"_{kind}")(*arguments)
        self._check()

    def _put(self, count: int) -> None:
        texts = [str(len(self.sent) + number) for number in range(count)]
        self.sent += texts
        self.world.frozen.discard("A")  # what it hasn't made durable, a crash takes with it
        self.world.put("A", "in@B", *texts)

    def _start(self, name: str) -> None:
        self.world.channel(name).start(self.world.now_us)
        self._turn(name)

    def _stop(self, name: str, mode: StopMode, to_inactive: bool) -> None:
        self.world.channel(name).stop(mode, to_inactive, self.world.now_us)
        self._turn(name)

    def _turn(self, name: str) -> None:
        self.world.nodes[name].turn_wanted = True
        self.world.settle()

    def _cut(self, unaware: str) -> None:
        self.world.cut(*unaware)

    def _restart(self, name: str) -> None:
        self.world.restart(name)

    def _pass(self, seconds: float) -> None:
        self.world.pass_s(seconds)

    def _reach(self, reachable: bool) -> None:
        self.world.unreachable = set() if reachable else {"B"}

    def _freeze(self, names: str) -> None:
        self.world.frozen = set(names)
        self.world.settle()

    def _check(self) -> None:
        for name in self.world.nodes:
            channel = self.world.channel(name)
            assert (channel.instance is not None) == (channel.state in ACTIVE)
            if name not in self.world.frozen:
                linked = [each for each in self.world.bindings(name) if each.links]
                assert len(linked) <= (channel.instance is not None)

    def in_peace(self) -> None:
        """Nothing fails any more, and somebody starts what is stopped."""
        world = self.world
        world.frozen, world.unreachable = set(), set()
        world.settle()
        world.pass_s(200)  # what was stopping has stopped, what is gone is noticed
        for name in "BA":
            self._start(name)
        world.pass_s(200)
        assert self.received() == self.sent
        assert world.depth("A", "B") == 0

    def received(self) -> list[str]:
        """What can be received at B, all of it."""
        node = self.world.nodes["B"]
        manager, now_us = node.manager, self.world.now_us
        consumer = manager.open_consumer(manager.queues["in"], Sink(), ConsumerOptions(name="test"), now_us)
        manager.set_credit(consumer, len(self.sent) + 1, False, now_us)
        found: list[str] = []
        while not (effects := manager.take_effects()).empty():
            found += [text_of(delivery.body) for delivery in effects.deliveries]
            for fetch in effects.fetches:
                manager.fetched(fetch.entries, node.ledger.read_bodies(fetch.wanted), now_us)
        return found


def text_of(body: bytes) -> str:
    message = decode_message(body)
    assert isinstance(message.body, Value)
    return str(message.body.value)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(ACTIONS, max_size=25),
    st.fixed_dictionaries(
        {"batch_size": st.sampled_from([1, 3, 50]), "batch_interval_ms": st.sampled_from([0, 5000])}
    ),
)
def test_whatever_happens_every_message_arrives_once_and_in_order(
    actions: list[tuple[Any, ...]], changed: dict[str, Any]
) -> None:
    course = Course(changed)
    for action in actions:
        course.do(action)
    course.in_peace()

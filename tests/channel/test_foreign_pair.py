"""Channels of protocol amqp over real engines and ledgers: cut before every piece, crashed, refused.

The foreign broker is another Postroom, of which the channel uses nothing but AMQP.
"""

from collections import Counter
from random import Random

import pytest

from postroom.amqp.message.sections import Header, Message, Properties, Value
from postroom.model.channel_states import ChannelState
from postroom.server.channels.instance import StopMode
from postroom.server.configuration.config import QueueConfig, QueueManagerConfig
from postroom.server.connection.binding import ConnectionBinding
from tests.channel.pair import Client, Place, Wire, World
from tests.sampling import spread

CHANNEL, THERE, SOURCE, IN, DEAD = "CHANNEL", "THERE", "SOURCE", "IN", "DEAD"
MESSAGES = 12
RETRY_S = 2
SEEDS = 40


class Scene:
    """A with a channel to or from B, which knows nothing of it."""

    def __init__(self, sending: bool, **changes: object) -> None:
        self.sending = sending
        self.world = World()
        self.partner = self.world.add("B", QueueConfig(name=IN), QueueConfig(name=SOURCE))
        self.own = self.world.add(
            "A",
            QueueConfig(name=THERE, usage="transmission"),
            QueueConfig(name=IN, duplicate_window=1000),
            QueueConfig(name=DEAD),
            queue_manager=QueueManagerConfig(dead_letter_queue=DEAD),
        )
        ends = {"transmission_queue": THERE, "remote_address": IN}
        if not sending:
            ends = {"local_queue": IN, "remote_address": SOURCE}
        settings: dict[str, object] = {
            "name": CHANNEL,
            "type": "sender" if sending else "receiver",
            "protocol": "amqp",
            "connection": "amqp://B:5672",
            "batch_size": 3,
            "short_retry_interval_s": 1,
            "short_retry_count": 1000,
            "message_retry_count": 1000,
            "message_retry_interval_ms": 500,
            "nonpersistent_speed": "normal",
        }
        self.own.define(**{**settings, **ends, **changes})
        self.world.settle()
        self.sent = 0

    @property
    def origin(self) -> Place:
        return self.own if self.sending else self.partner

    @property
    def target(self) -> Place:
        return self.partner if self.sending else self.own

    def put(self, count: int) -> None:
        """Messages with ids, where the channel takes them."""
        client = Client(self.origin)
        link = client.sender(THERE if self.sending else SOURCE)
        for number in range(self.sent, self.sent + count):
            message = Message(
                header=Header(durable=True),
                properties=Properties(message_id=f"id-{number}"),
                body=Value(str(number)),
            )
            link.send(message.encode(), number.to_bytes(4, "big"), False)
        self.sent += count
        self.world.settle()

    def switch(self, paused: bool) -> None:
        """Have the target queue take nothing, or take messages again."""
        manager = self.target.manager
        (manager.pause if paused else manager.resume)(manager.queues[IN], "production", self.world.now_us)

    def come_to_rest(self) -> None:
        self.switch(False)
        for _ in range(10):
            self.world.pass_time(RETRY_S)

    def arrived(self) -> Counter[int]:
        return Counter(int(text) for text in Client(self.target).get(IN))

    def dead(self) -> Counter[int]:
        return Counter(int(text) for text in Client(self.own).get(DEAD))

    def judge(self, once: bool, dead: bool = False) -> None:
        """Everything has arrived, or (``dead``) is a dead letter; nothing twice where that was promised, and
        nothing is left."""
        found, letters = self.arrived(), self.dead()
        assert dead or not letters
        found += letters
        assert set(found) == set(range(self.sent)), (self.own.state(CHANNEL), self.own.reason(CHANNEL))
        assert not once or set(found.values()) <= {1}
        assert self.origin.manager.queues[THERE if self.sending else SOURCE].is_empty()
        assert not self.own.manager.channels.by_name[CHANNEL].batches


@pytest.mark.parametrize("sending", [True, False])
def test_all_goes_well(sending: bool) -> None:
    scene = Scene(sending)
    scene.put(MESSAGES)
    assert scene.own.state(CHANNEL) == ChannelState.RUNNING, scene.own.reason(CHANNEL)
    scene.judge(True)
    assert scene.own.manager.channels.sync(CHANNEL).last_sequence == MESSAGES


def pieces(scene: Scene, cut_at: int) -> int:
    """Put messages, and cut the connection before so many pieces have been carried; how many there were."""
    carried = 0

    def carry(wire: Wire) -> None:
        nonlocal carried
        if carried == cut_at:
            scene.world.cut(wire)
        carried += 1

    scene.world.piece_bytes = 300
    scene.world.carrying = carry
    scene.put(MESSAGES)
    return carried


@pytest.mark.parametrize("sending", [True, False])
def test_a_cut_before_every_piece(sending: bool) -> None:
    for at in spread(range(pieces(Scene(sending), -1)), 20):
        scene = Scene(sending)
        pieces(scene, at)
        scene.come_to_rest()
        scene.judge(not sending)
        assert scene.sent == MESSAGES


@pytest.mark.parametrize("sending", [True, False])
@pytest.mark.parametrize("seed", spread(range(SEEDS), 8))
def test_mishaps_at_random(sending: bool, seed: int) -> None:
    chance = Random(seed)
    attempts = chance.choice((0, 1, 1000))
    scene = Scene(sending, batch_size=chance.choice((1, 3, 50)), message_retry_count=attempts)
    scene.world.piece_bytes = chance.choice((100, 1000, 1 << 20))

    def mishap(wire: Wire) -> None:
        if chance.random() < 0.02:
            scene.world.cut(wire)

    scene.world.carrying = mishap
    for _ in range(12):
        what = chance.choice(("put", "put", "pause", "resume", "crash here", "crash there", "wait"))
        if what == "put":
            scene.put(chance.randint(1, MESSAGES))
        elif what in ("pause", "resume"):
            scene.switch(what == "pause")
        elif what == "crash here":
            scene.own.crash()
        elif what == "crash there":
            scene.partner.crash()
        scene.world.pass_time(chance.choice((0.1, 0.6, RETRY_S)))
    scene.world.carrying = lambda wire: None
    scene.come_to_rest()
    scene.judge(not sending and attempts == 1000, attempts < 1000)


def test_an_idle_channel_ends_and_the_next_message_starts_it() -> None:
    scene = Scene(True, disconnect_interval_s=3)
    scene.put(1)
    scene.world.pass_time(10)
    assert scene.own.state(CHANNEL) == ChannelState.INACTIVE
    scene.put(1)
    assert scene.own.state(CHANNEL) == ChannelState.RUNNING
    scene.judge(True)


@pytest.mark.parametrize("mode", list(StopMode))
@pytest.mark.parametrize("sending", [True, False])
def test_stop_leaves_everything_somewhere(sending: bool, mode: StopMode) -> None:
    scene = Scene(sending)
    scene.switch(True)
    scene.put(MESSAGES)
    assert scene.own.state(CHANNEL) == ChannelState.PAUSED
    scene.own.broker.channels.find(CHANNEL).stop(mode, False, scene.world.now_us)
    scene.world.settle()
    assert scene.own.state(CHANNEL) == ChannelState.STOPPED
    scene.switch(False)
    assert scene.arrived() == Counter()
    scene.own.start(CHANNEL)
    scene.come_to_rest()
    scene.judge(not sending)


def test_stop_is_not_kept_waiting_by_what_more_the_partner_has() -> None:
    scene = Scene(False)
    scene.world.carrying = lambda wire: scene.own.broker.channels.find(CHANNEL).stop(
        StopMode.QUIESCE, False, scene.world.now_us
    )
    scene.put(20 * MESSAGES)
    assert scene.own.state(CHANNEL) == ChannelState.STOPPED
    scene.world.carrying = lambda wire: None
    scene.own.start(CHANNEL)
    scene.world.settle()
    scene.judge(True)


def test_a_partner_that_falls_silent() -> None:
    """Its machine is gone: nothing comes any more, not even the end of the connection."""
    scene = Scene(True, heartbeat_interval_s=5)
    scene.put(1)
    wire = next(wire for wire in scene.world.wires if wire.ends[0].place is scene.own)
    scene.world.cut(wire, besides=scene.own)
    scene.put(MESSAGES)
    assert scene.own.state(CHANNEL) == ChannelState.RUNNING
    scene.world.now_us += 10_000_000
    talker = wire.ends[0].talker
    assert isinstance(talker, ConnectionBinding)
    talker.on_time(scene.world.now_us, scene.world.now_us)
    scene.own.broker.on_time(scene.world.now_us)
    scene.world.settle()
    assert scene.own.state(CHANNEL) == ChannelState.RETRYING
    scene.come_to_rest()
    scene.judge(False)

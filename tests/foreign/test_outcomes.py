"""What a partner doesn't accept: tried again, or a dead letter here.

The partner is another Postroom, spoken to as to any broker, because it can be made to refuse.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message
from tools.peers import Postroom

from postroom.model.channel_states import ChannelState
from postroom.server.configuration.config import QueueConfig
from postroom.server.connection.broker import Broker
from tests.crash.kills import source_of_this_build
from tests.foreign import scene
from tests.foreign.scene import DEAD, TRANSMISSION, channel, count_of, numbered
from tests.server.harness import BrokerThread, make_config

pytestmark = [pytest.mark.sockets]

OPEN, VOLATILE = "open", "volatile"


@pytest.fixture
def partner() -> Iterator[BrokerThread]:
    queues = [
        QueueConfig(name=OPEN),
        QueueConfig(name=VOLATILE, persistent=False),
    ]
    config = make_config(queue=queues, container_id="partner")
    with BrokerThread(config) as running:
        yield running


def switch(partner: BrokerThread, verb: str) -> None:
    """Have OPEN take nothing for a while."""

    def act(one: Broker, now_us: int) -> None:
        queue = one.manager.queues[OPEN]
        (one.manager.pause if verb == "pause" else one.manager.resume)(queue, "production", now_us)

    partner.turn(act)


def to(partner: BrokerThread, address: str, **settings: object) -> BrokerThread:
    one_way = channel(
        "sender", partner.url, transmission_queue=TRANSMISSION, remote_address=address, **settings
    )
    dead_letters = settings.get("use_dead_letter_queue", True) is True
    return BrokerThread(scene.config(one_way, dead_letters))


def test_a_queue_that_takes_nothing_now_is_tried_again(partner: BrokerThread) -> None:
    switch(partner, "pause")
    with to(partner, OPEN, message_retry_count=1000) as postroom:
        scene.send(postroom.url, f"orders@{TRANSMISSION}", numbered(5))
        scene.wait_for_state(postroom, ChannelState.PAUSED)
        switch(partner, "resume")
        found = scene.receive(partner.url, OPEN, count_of(5))
        postroom.wait_until(lambda one: one.manager.queues[TRANSMISSION].is_empty())
        assert scene.state_of(postroom) == ChannelState.RUNNING
    assert sorted(message.body for message in found) == list(range(5))


def test_what_is_rejected_for_good_is_a_dead_letter(partner: BrokerThread) -> None:
    with to(partner, VOLATILE) as postroom:
        messages = [*numbered(2), Message(id="v", body="volatile"), *numbered(1)]
        scene.send(postroom.url, f"orders@{TRANSMISSION}", messages)
        dead = scene.receive(postroom.url, DEAD, count_of(3))
        postroom.wait_until(lambda one: one.manager.queues[TRANSMISSION].is_empty())
        sync = postroom.call(lambda one: one.manager.channels.sync(scene.CHANNEL))
        assert sync.in_doubt is None
    assert [message.body for message in dead] == [0, 1, 0]
    assert dead[0].annotations["x-opt-dead-letter"]["reason"] == 2195
    assert scene.receive(partner.url, VOLATILE, count_of(1))[0].body == "volatile"


def test_without_a_dead_letter_queue_it_stays_and_the_channel_tries_again(partner: BrokerThread) -> None:
    with to(partner, VOLATILE, use_dead_letter_queue=False) as postroom:
        scene.send(postroom.url, f"orders@{TRANSMISSION}", numbered(2))
        scene.wait_for_state(postroom, ChannelState.RETRYING)
        postroom.wait_until(
            lambda one: sum(b.live_count() for b in one.manager.queues[TRANSMISSION].bands) == 2
        )


def test_what_is_larger_than_the_channel_takes_is_a_dead_letter(partner: BrokerThread) -> None:
    with to(partner, OPEN, max_message_bytes=1000) as postroom:
        scene.send(
            postroom.url, f"orders@{TRANSMISSION}", [Message(body="x" * 2000, durable=True), *numbered(1)]
        )
        assert scene.receive(partner.url, OPEN, count_of(1))[0].body == 0
        dead = scene.receive(postroom.url, DEAD, count_of(1))
    assert dead[0].annotations["x-opt-dead-letter"]["reason"] == 2218


def test_fast_messages_travel_outside_of_batches(partner: BrokerThread) -> None:
    with to(partner, OPEN) as postroom:
        scene.send(postroom.url, f"orders@{TRANSMISSION}", [Message(body=n) for n in range(5)])
        found = scene.receive(partner.url, OPEN, count_of(5))
        assert [message.body for message in found] == list(range(5))
        assert all(message.id for message in found)
        postroom.wait_until(lambda one: one.manager.queues[TRANSMISSION].is_empty())
        assert postroom.call(lambda one: one.manager.channels.sync(scene.CHANNEL)).last_sequence == 0


def test_stop_lets_the_batch_end(partner: BrokerThread) -> None:
    with to(partner, OPEN) as postroom:
        scene.send(postroom.url, f"orders@{TRANSMISSION}", numbered(5))
        assert len(scene.receive(partner.url, OPEN, count_of(5))) == 5
        scene.stop(postroom)
        assert postroom.call(lambda one: one.manager.channels.sync(scene.CHANNEL)).last_sequence == 5


def test_after_a_crash_with_messages_on_their_way_they_are_sent_again(
    partner: BrokerThread, tmp_path: Path
) -> None:
    """The crash leaves a batch in doubt behind, of which nobody else knows."""
    switch(partner, "pause")
    postroom = Postroom(tmp_path, source_of_this_build())
    postroom.configuration = f"""
[[queue]]
name = "{TRANSMISSION}"
usage = "transmission"

[[channel]]
name = "{scene.CHANNEL}"
type = "sender"
protocol = "amqp"
connection = "{partner.url}"
transmission_queue = "{TRANSMISSION}"
remote_address = "{OPEN}"
message_retry_count = 1000
message_retry_interval_ms = 100
"""
    with postroom:
        scene.send(f"amqp://127.0.0.1:{postroom.port}", f"orders@{TRANSMISSION}", numbered(3))
        partner.wait_until(lambda one: any(binding.messages_in >= 3 for binding in one.connections))
        postroom.kill()
        switch(partner, "resume")
        postroom.start()
        found = scene.receive(partner.url, OPEN, count_of(3))
    assert sorted(message.body for message in found) == [0, 1, 2]

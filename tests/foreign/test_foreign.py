"""Channels to and from RabbitMQ and Artemis: both ways, cut, killed, refused, and twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from proton import Message
from tools.peers import Artemis, RabbitMQ

from postroom.model.channel_states import ChannelState
from postroom.server.configuration.channels import CredentialsConfig
from tests.faults.proxy import BROKER, CLIENT, CutPoint
from tests.foreign import scene
from tests.foreign.conftest import SILENT, SMALL
from tests.foreign.scene import (
    DEAD,
    QUEUE,
    TRANSMISSION,
    Partner,
    ProxyThread,
    all_of,
    count_of,
    numbered,
    receiving,
    sending,
)
from tests.server.harness import BrokerThread

pytestmark = [pytest.mark.sockets, pytest.mark.peer]

MANY = 600
WINDOW = 20_000
UNEXPECTED_ERROR = 2195


def test_rabbitmq_is_of_release_4(rabbitmq: RabbitMQ) -> None:
    assert rabbitmq.control("version").startswith("4.")
    assert rabbitmq.version().startswith(rabbitmq.control("version").strip())


def test_messages_go_to_a_foreign_broker_as_they_are(partner: Partner) -> None:
    with BrokerThread(scene.config(sending(partner.url, partner))) as postroom:
        known = Message(
            id="mine", subject="s", correlation_id="c", properties={"p": 1}, body={"a": [1]}, durable=True
        )
        known.reply_to, known.priority = "answers", 7
        scene.send(postroom.url, f"orders@{TRANSMISSION}", [known, Message(body="no id", durable=True)])
        first, second = partner.receive(count_of(2))
    assert (first.id, first.subject, first.correlation_id) == ("mine", "s", "c")
    assert (first.properties, first.body, first.durable, first.priority) == ({"p": 1}, {"a": [1]}, True, 7)
    assert first.annotations is None or "x-opt-transmission" not in first.annotations
    assert second.body == "no id"
    assert second.id


def test_messages_come_from_a_foreign_broker(partner: Partner) -> None:
    partner.send([*numbered(3, properties={"p": 1}), Message(body=3, durable=True)])
    with BrokerThread(scene.config(receiving(partner.url, partner))) as postroom:
        found = scene.receive(postroom.url, QUEUE, count_of(4))
    assert [message.body for message in found] == [0, 1, 2, 3]
    assert [message.id for message in found[:3]] == ["id-0", "id-1", "id-2"]
    assert found[3].id
    assert found[0].properties == {"p": 1}


def test_order_is_kept_and_nothing_is_left(partner: Partner) -> None:
    with BrokerThread(scene.config(sending(partner.url, partner, batch_size=7))) as postroom:
        scene.send(postroom.url, f"orders@{TRANSMISSION}", numbered(MANY))
        found = partner.receive(count_of(MANY))
        assert [message.body for message in found] == list(range(MANY))
        postroom.wait_until(lambda one: one.manager.queues[TRANSMISSION].is_empty())
        sync = postroom.call(lambda one: one.manager.channels.sync(scene.CHANNEL))
        assert (sync.last_sequence, sync.in_doubt) == (MANY, None)


SENDING_CUTS = [
    CutPoint(CLIENT, "attach", 0, False),
    CutPoint(CLIENT, "transfer", 3, False),
    CutPoint(CLIENT, "transfer", 3, True),
    CutPoint(BROKER, "disposition", 0, False),
    CutPoint(BROKER, "disposition", 0, True),
]


@pytest.mark.parametrize("cut", SENDING_CUTS, ids=str)
def test_what_is_sent_arrives_across_a_cut(partner: Partner, cut: CutPoint) -> None:
    with ProxyThread(partner.broker.port, cut) as proxy:
        with BrokerThread(scene.config(sending(proxy.url, partner))) as postroom:
            scene.send(postroom.url, f"orders@{TRANSMISSION}", numbered(20))
            found = partner.receive(all_of(20))
            postroom.wait_until(lambda one: one.manager.queues[TRANSMISSION].is_empty())
        assert proxy.cuts_left == 0
    assert {message.id for message in found} == {f"id-{n}" for n in range(20)}


RECEIVING_CUTS = [
    CutPoint(CLIENT, "attach", 0, True),
    CutPoint(BROKER, "transfer", 3, False),
    CutPoint(BROKER, "transfer", 3, True),
    CutPoint(CLIENT, "disposition", 0, False),
    CutPoint(CLIENT, "disposition", 0, True),
]


@pytest.mark.parametrize("cut", RECEIVING_CUTS, ids=str)
def test_what_is_received_comes_once_across_a_cut(partner: Partner, cut: CutPoint) -> None:
    partner.send(numbered(20))
    with ProxyThread(partner.broker.port, cut) as proxy:
        one_way = receiving(proxy.url, partner)
        with BrokerThread(scene.config(one_way, duplicate_window=WINDOW)) as postroom:
            found = scene.receive(postroom.url, QUEUE, count_of(20))
            scene.stop(postroom)
            assert scene.waits_on(postroom, QUEUE) == 0
        assert proxy.cuts_left == 0
    assert sorted(message.body for message in found) == list(range(20))


def test_nothing_is_lost_when_the_foreign_broker_is_killed_while_it_gets(partner: Partner) -> None:
    with BrokerThread(scene.config(sending(partner.url, partner, batch_size=20))) as postroom:
        scene.send(postroom.url, f"orders@{TRANSMISSION}", numbered(MANY // 2))
        postroom.wait_until(lambda one: one.channels.find(scene.CHANNEL).moved_us > 0)
        partner.broker.kill()
        rest = [Message(id=f"id-{n}", body=n, durable=True) for n in range(MANY // 2, MANY)]
        scene.send(postroom.url, f"orders@{TRANSMISSION}", rest)
        scene.wait_for_state(postroom, ChannelState.RETRYING)
        partner.broker.start()
        found = partner.receive(all_of(MANY))
        postroom.wait_until(lambda one: one.manager.queues[TRANSMISSION].is_empty())
    assert {message.body for message in found} == set(range(MANY))


def test_nothing_is_lost_or_doubled_when_the_foreign_broker_is_killed_while_it_gives(
    partner: Partner,
) -> None:
    partner.send(numbered(MANY))
    one_way = receiving(partner.url, partner, batch_size=20)
    with BrokerThread(scene.config(one_way, duplicate_window=WINDOW)) as postroom:
        postroom.wait_until(lambda one: one.channels.find(scene.CHANNEL).moved_us > 0)
        partner.broker.kill()
        scene.wait_for_state(postroom, ChannelState.RETRYING)
        partner.broker.start()
        found = scene.receive(postroom.url, QUEUE, all_of(MANY))
        scene.stop(postroom)
        assert scene.waits_on(postroom, QUEUE) == 0
    assert sorted(message.body for message in found) == list(range(MANY))


def test_what_was_sent_before_with_the_same_id_is_dropped(partner: Partner) -> None:
    partner.send([*numbered(5), *numbered(6)])
    with BrokerThread(scene.config(receiving(partner.url, partner), duplicate_window=WINDOW)) as postroom:
        found = scene.receive(postroom.url, QUEUE, all_of(6))
        scene.stop(postroom)
        assert scene.waits_on(postroom, QUEUE) == 0
    assert [message.body for message in found] == list(range(6))


def test_a_full_queue_here_pauses_the_channel_until_there_is_room(partner: Partner) -> None:
    partner.send(numbered(3))
    one_way = receiving(partner.url, partner, message_retry_count=1000)
    with BrokerThread(scene.config(one_way, max_messages=1)) as postroom:
        scene.wait_for_state(postroom, ChannelState.PAUSED)
        assert [m.body for m in scene.receive(postroom.url, QUEUE, count_of(3))] == [0, 1, 2]


def test_what_finds_no_room_here_is_a_dead_letter(partner: Partner) -> None:
    partner.send(numbered(3))
    one_way = receiving(partner.url, partner, message_retry_count=0)
    with BrokerThread(scene.config(one_way, max_messages=1)) as postroom:
        dead = scene.receive(postroom.url, DEAD, count_of(2))
        assert [message.body for message in dead] == [1, 2]
        assert dead[0].annotations["x-opt-dead-letter"]["reason"] == 2053


def test_without_a_dead_letter_queue_it_stays_with_the_foreign_broker(partner: Partner) -> None:
    partner.send(numbered(2))
    one_way = receiving(partner.url, partner, message_retry_count=0, batch_size=1)
    with BrokerThread(scene.config(one_way, dead_letters=False, max_messages=1)) as postroom:
        scene.wait_for_state(postroom, ChannelState.RETRYING)
        assert [m.body for m in scene.receive(postroom.url, QUEUE, count_of(2))] == [0, 1]


def test_artemis_drops_what_it_has_had_by_its_own_property(artemis: Artemis) -> None:
    partner = Partner(artemis, "twins")
    twins = [Message(body=n, durable=True, properties={"_AMQ_DUPL_ID": f"key-{n // 2}"}) for n in range(4)]
    with BrokerThread(scene.config(sending(partner.url, partner))) as postroom:
        scene.send(postroom.url, f"orders@{TRANSMISSION}", twins)
        postroom.wait_until(lambda one: one.manager.queues[TRANSMISSION].is_empty())
        postroom.wait_until(lambda one: not one.manager.channels.by_name[scene.CHANNEL].batches)
        assert [message.body for message in partner.receive(count_of(2))] == [0, 2]


def test_credentials(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    partner = Partner(rabbitmq, "credentials")
    secret = tmp_path / "secret"
    secret.write_text("guest\n")
    one_way = sending(partner.url, partner, credentials="theirs")
    known = {"theirs": CredentialsConfig(user="guest", password_file=str(secret))}
    with BrokerThread(scene.config(one_way, credentials=known)) as postroom:
        scene.send(postroom.url, f"orders@{TRANSMISSION}", numbered(1))
        assert partner.receive(count_of(1))[0].body == 0


def test_wrong_credentials_stop_the_channel(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    partner = Partner(rabbitmq, "credentials")
    secret = tmp_path / "secret"
    secret.write_text("wrong\n")
    known = {"theirs": CredentialsConfig(user="guest", password_file=str(secret))}
    one_way = sending(partner.url, partner, credentials="theirs")
    with BrokerThread(scene.config(one_way, credentials=known)) as postroom:
        scene.send(postroom.url, f"orders@{TRANSMISSION}", numbered(1))
        scene.wait_for_state(postroom, ChannelState.STOPPED)


def test_what_a_full_queue_refuses_is_a_dead_letter(rabbitmq: RabbitMQ) -> None:
    """RabbitMQ rejects it without an error, so that nothing says that the queue is only full."""
    partner = Partner(rabbitmq, SMALL)
    with BrokerThread(scene.config(sending(partner.url, partner))) as postroom:
        scene.send(postroom.url, f"orders@{TRANSMISSION}", numbered(4))
        dead = scene.receive(postroom.url, DEAD, count_of(3))
        postroom.wait_until(lambda one: one.manager.queues[TRANSMISSION].is_empty())
    assert [message.body for message in dead] == [1, 2, 3]
    assert {message.annotations["x-opt-dead-letter"]["reason"] for message in dead} == {UNEXPECTED_ERROR}
    assert partner.receive(count_of(1))[0].body == 0


def test_what_has_no_outcome_for_too_long_is_sent_again(
    rabbitmq: RabbitMQ, caplog: pytest.LogCaptureFixture
) -> None:
    """RabbitMQ is there, and its queue's process stands still."""
    partner = Partner(rabbitmq, SILENT)
    with BrokerThread(scene.config(sending(partner.url, partner, heartbeat_interval_s=2))) as postroom:
        act_on_queue(rabbitmq, SILENT, "suspend")
        try:
            scene.send(postroom.url, f"orders@{TRANSMISSION}", numbered(4))
            scene.wait_for_state(postroom, ChannelState.RETRYING)
        finally:
            act_on_queue(rabbitmq, SILENT, "resume")
        found = partner.receive(all_of(4))
        postroom.wait_until(lambda one: one.manager.queues[TRANSMISSION].is_empty())
    assert {message.body for message in found} == set(range(4))
    reasons = [str(record.__dict__.get("fields", {}).get("reason")) for record in caplog.records]
    assert any("no outcome has come for 2 s" in reason for reason in reasons)


def act_on_queue(rabbitmq: RabbitMQ, name: str, verb: str) -> None:
    """Suspend or resume the process of a classic queue."""
    found = f'{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"{name}">>))'
    rabbitmq.control("eval", f"{found}, sys:{verb}(amqqueue:get_pid(Q)).")

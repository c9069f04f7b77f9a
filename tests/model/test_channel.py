"""Channel definitions: what they may be, and that the ledger gives back what it was given."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.model.channel import (
    ChannelDefinition,
    ChannelInvalid,
    check_channel_name,
    check_connection,
    next_sequence,
)
from postroom.model.settings import record_of, restored

SENDER = ChannelDefinition("A.B", connection="amqp://b:5672", transmission_queue="B")
RECEIVER = ChannelDefinition("A.B", type="receiver")
FOREIGN = ChannelDefinition(
    "A.R", protocol="amqp", connection="amqps://r:5671", transmission_queue="R", remote_address="/queue/in"
)


@pytest.mark.parametrize(
    "definition",
    [
        SENDER,
        RECEIVER,
        FOREIGN,
        ChannelDefinition("S", type="server", transmission_queue="B"),
        ChannelDefinition("S", type="server", transmission_queue="B", connection="amqp://[::1]:5672"),
        ChannelDefinition("R", type="requester", connection="amqp://b:1"),
        ChannelDefinition("R", type="requester", connection="amqps://b:1, amqps://[::1]:2,amqps://c:3"),
        replace(FOREIGN, type="receiver", transmission_queue="", local_queue="in"),
    ],
)
def test_each_kind_of_channel_can_be(definition: ChannelDefinition) -> None:
    definition.check()
    assert restored(ChannelDefinition, definition.to_ledger()) == definition
    assert restored(ChannelDefinition, record_of(definition)) == definition


@pytest.mark.parametrize(
    ("definition", "key"),
    [
        (replace(SENDER, name=""), "name"),
        (replace(SENDER, type="cluster"), "type"),
        (replace(SENDER, protocol="lu62"), "protocol"),
        (replace(SENDER, transmission_queue=""), "transmission_queue"),
        (replace(RECEIVER, transmission_queue="B"), "transmission_queue"),
        (replace(SENDER, connection=""), "connection"),
        (replace(RECEIVER, connection="amqp://b:5672"), "connection"),
        (replace(RECEIVER, type="requester"), "connection"),
        (replace(SENDER, batch_size=0), "batch_size"),
        (replace(SENDER, batch_size=10_000), "batch_size"),
        (replace(SENDER, batch_limit_kb=-1), "batch_limit_kb"),
        (replace(SENDER, sequence_wrap=99), "sequence_wrap"),
        (replace(SENDER, long_retry_count=1_000_000_000), "long_retry_count"),
        (replace(SENDER, nonpersistent_speed="slow"), "nonpersistent_speed"),
        (replace(SENDER, put_authority="root"), "put_authority"),
        (replace(SENDER, description="x" * 257), "description"),
        (replace(FOREIGN, remote_address=""), "remote_address"),
        (replace(FOREIGN, type="server"), "type"),
        (replace(FOREIGN, connection=""), "connection"),
        (replace(FOREIGN, type="receiver", transmission_queue=""), "local_queue"),
    ],
)
def test_what_can_not_be_is_refused_with_its_key(definition: ChannelDefinition, key: str) -> None:
    with pytest.raises(ChannelInvalid) as refused:
        definition.check()
    assert refused.value.key == key
    assert key in refused.value.description


@pytest.mark.parametrize(
    "connection",
    [
        *("b:5672", "amqp://b", "amqp://:5672", "amqp://b:0", "amqp://b:65536", "amqp://b:x", "http://b:80"),
        *("amqp://b:5672/x", "amqp://b c:5672", "amqp://a:1,b:2", "amqp://me:secret@b:5672"),
        *(
            "amqp://a:1,",
            "amqp://a:1,amqps://b:2",
            "amqp://a:1,amqp://me:secret@b:2",
            "amqp://u:secret@a:1,amqp://b:2",
        ),
    ],
)
def test_a_connection_is_a_scheme_a_host_and_a_port(connection: str) -> None:
    with pytest.raises(ChannelInvalid) as refused:
        check_connection("A.B", connection)
    assert "secret" not in refused.value.description


@given(st.text(max_size=30))
def test_a_name_has_the_characters_of_mq_and_at_most_20(name: str) -> None:
    allowed = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/%")
    if 1 <= len(name) <= 20 and set(name) <= allowed:
        check_channel_name(name)
    else:
        with pytest.raises(ChannelInvalid):
            check_channel_name(name)


def test_the_ledger_holds_what_is_not_usual() -> None:
    assert RECEIVER.to_ledger() == {"name": "A.B", "type": "receiver"}
    assert set(record_of(RECEIVER)) == {each.name for each in fields(ChannelDefinition)}


def test_sequence_numbers_begin_again_at_one() -> None:
    assert next_sequence(0, 100) == 1
    assert next_sequence(99, 100) == 100
    assert next_sequence(100, 100) == 1

"""What is accepted with MQ's warning 2104 shows in the broker's log."""

import logging

import pytest

from postroom.amqp.encoding.types import Symbol, UInt
from postroom.amqp.message.sections import Message, Properties, Value
from postroom.server.configuration.config import QueueConfig
from tests.channel.pair import Client, World


def test_an_unknown_option_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    place = world.add("A", QueueConfig(name="IN"))
    client = Client(place)
    link = client.sender("IN")
    message = Message(
        message_annotations={Symbol("x-opt-report"): UInt(4)},
        properties=Properties(reply_to="IN"),
        body=Value("text"),
    )
    with caplog.at_level(logging.WARNING, "postroom"):
        link.send(message.encode(), b"1", False)
        world.settle()
    assert client.get("IN") == ["text"]
    [record] = [record for record in caplog.records if record.getMessage() == "report-options"]
    assert "MQRC_UNKNOWN_REPORT_OPTION (2104)" in str(vars(record))

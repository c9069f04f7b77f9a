"""What can't be delivered, between two queue managers: retry exits, reports, return to sender."""

import pytest

from postroom.amqp.encoding.types import Int
from postroom.amqp.engine.events import LinkDetached, TransferReceived
from postroom.amqp.message.sections import Header, Message, Properties, Value, decode_message
from postroom.channel.undelivered import RetryRequest, Stop
from postroom.manager.kernel.name_rules import UNDELIVERED
from postroom.model.channel_states import ChannelState
from postroom.model.mq import Report
from postroom.server.configuration.config import QueueConfig, QueueManagerConfig
from postroom.server.configuration.retry_exits import ExitNotLoaded, find, load
from tests.channel import exits
from tests.channel.making import A_TO_B, receiver, sender
from tests.channel.pair import Client, Place, World

EXIT = "tests.channel.exits:until_third"


def two(**receiving: object) -> tuple[World, Place, Place]:
    """A sends to B, and B's reports come back by a channel of their own."""
    world = World()
    own = QueueManagerConfig(dead_letter_queue="DEAD")
    dead = QueueConfig(name="DEAD")
    queues = (QueueConfig(name="B", usage="transmission"), QueueConfig(name="ANSWERS"))
    a = world.add("A", *queues, dead, queue_manager=own)
    b = world.add("B", QueueConfig(name="A", usage="transmission"), dead, queue_manager=own)
    b.define(**receiver(**receiving))
    a.define(name="B.TO.A", type="receiver")
    a.define(**sender())
    back = sender() | {"name": "B.TO.A", "transmission_queue": "A", "connection": "amqp://A:5672"}
    b.define(**back)
    a.start(A_TO_B)
    b.start("B.TO.A")
    world.settle()
    return world, a, b


def put_with_reports(client: Client, to: str, **options: int) -> None:
    """Put a message that requests reports to ANSWERS."""
    link = client.sender(to)
    properties: dict[str, object] = {f"JMS_IBM_Report_{name}": Int(word) for name, word in options.items()}
    message = Message(
        header=Header(durable=True),
        properties=Properties(message_id="ID:1", reply_to="ANSWERS"),
        application_properties={**properties, "colour": "red"},
        body=Value("order 7"),
    )
    link.send(message.encode(), b"1", False)
    client.world.settle()


def answers(client: Client) -> list[Message]:
    link = client.receiver("ANSWERS")
    return [decode_message(event.payload) for event in client.events(TransferReceived) if event.link is link]


def test_a_message_comes_back_to_its_sender() -> None:
    _, a, b = two()
    client = Client(a)
    put_with_reports(
        client, "NOWHERE@B", Exception=Report.EXCEPTION_WITH_FULL_DATA, Discard_Msg=Report.DISCARD_MSG
    )
    [report] = answers(client)
    assert report.application_properties["JMS_IBM_Feedback"] == 2085
    assert report.application_properties["colour"] == "red"
    assert report.body == Value("order 7")
    assert report.properties is not None
    assert report.properties.correlation_id == "ID:1"
    assert (a.depth("B"), b.depth("DEAD"), b.depth("A")) == (0, 0, 0)


def test_nobody_sends_to_where_the_undelivered_stand_nor_receives_there() -> None:
    _, a, b = two()
    put_with_reports(
        Client(a), "NOWHERE@B", Exception=Report.EXCEPTION_WITH_FULL_DATA, Discard_Msg=Report.DISCARD_MSG
    )
    assert UNDELIVERED in b.broker.manager.queues
    client = Client(b)
    client.receiver(UNDELIVERED, credit=0)
    client.sender(UNDELIVERED)
    refused = [event.error for event in client.events(LinkDetached)]
    assert [error and error.condition for error in refused] == ["amqp:not-found"] * 2
    Client(a).put(f"{UNDELIVERED}@B", "for nobody")
    assert Client(b).get("DEAD") == ["for nobody"]


def test_arrival_and_an_exception_are_reported_from_there() -> None:
    _, a, b = two()
    b.broker.manager.queue_for_attach("IN", b.world.now_us)
    client = Client(a)
    put_with_reports(client, "IN@B", COA=Report.COA, COD=Report.COD, Exception=Report.EXCEPTION)
    assert Client(b).get("IN") == ["order 7"]
    put_with_reports(client, "NOWHERE@B", COA=Report.COA, Exception=Report.EXCEPTION)
    feedbacks = [message.application_properties["JMS_IBM_Feedback"] for message in answers(client)]
    assert feedbacks == [259, 260, 2085]
    assert b.depth("DEAD") == 1


def test_an_exit_decides_about_attempts() -> None:
    exits.requests.clear()
    world, a, b = two(message_retry_exit=EXIT, message_retry_data="patience")
    put_with_reports(Client(a), "NOWHERE@B")
    assert b.state(A_TO_B) == ChannelState.PAUSED
    world.pass_time(0.25)
    assert b.state(A_TO_B) == ChannelState.PAUSED
    world.pass_time(0.25)
    assert b.state(A_TO_B) == ChannelState.RUNNING
    assert b.depth("DEAD") == 1
    assert [request.attempt for request in exits.requests] == [1, 2, 3]
    last = exits.requests[-1]
    assert (last.data, last.undelivered.reason, last.header.value("colour")) == ("patience", 2085, "red")


def test_an_exit_that_can_not_be_loaded_tries_nothing_again() -> None:
    _, a, b = two(message_retry_exit="tests.channel.exits:missing")
    put_with_reports(Client(a), "NOWHERE@B")
    assert b.depth("DEAD") == 1


# --- loading


def test_an_exit_is_found_by_its_name() -> None:
    exit = load(EXIT)
    assert exit is exits.until_third
    assert load("") is None


@pytest.mark.parametrize(
    "name",
    [
        "tests.channel.exits",
        ":f",
        "tests.channel.exits:",
        "no.such.module:f",
        "tests.channel.exits:NOT_CALLABLE",
    ],
)
def test_names_that_lead_to_no_exit(name: str) -> None:
    with pytest.raises(ExitNotLoaded, match=name.split(":")[0].split(".")[0] or ":f"):
        find(name)
    assert load(name) is None


def test_a_class_may_hold_the_exit() -> None:
    assert find("tests.channel.test_undelivered_pair:Holder.exit") is Holder.exit


class Holder:
    @staticmethod
    def exit(request: RetryRequest) -> Stop:
        return Stop()

"""What can't be put, on a receiving end over a real ledger: every way through the steps, and what the ledger
tells of it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.amqp.encoding.types import Symbol, UInt
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.rewrite import take_annotation
from postroom.amqp.message.sections import Data, Header, Message, Properties
from postroom.channel.undelivered import UndeliveredHandler
from postroom.ledger.format.records import ArrivalFlag
from postroom.manager.channels.undelivered import Action, OnFailure, ReceivedMessage
from postroom.manager.headers import dead_letter_header
from postroom.manager.headers.dead_letter_header import DeadLetterHeader
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.producing.discard import UNDELIVERED
from postroom.model.channel import ChannelDefinition
from postroom.model.codes import Event, Outcome
from postroom.model.mq import Reason, Report
from tests.manager.channel_world import CHANNEL, HERE, THERE, Answers
from tests.manager.over_ledger import LedgerWorld
from tests.manager.reports.report_messages import Report as Read
from tests.manager.reports.report_messages import on
from tests.manager.world import World

LUWID = b"\x01" * 16
ENDS = (Event.DISCARD, Event.RETURN_TO_SENDER)

DEFINITION = ChannelDefinition(CHANNEL, type="receiver", message_retry_count=0)
WORDS = {
    OnFailure.NOTHING: 0,
    OnFailure.DISCARD: Report.DISCARD_MSG,
    OnFailure.REPORT: Report.EXCEPTION_WITH_DATA,
    OnFailure.REPORT_AND_DISCARD: Report.EXCEPTION | Report.DISCARD_MSG,
    OnFailure.RETURN: Report.EXCEPTION_WITH_FULL_DATA | Report.DISCARD_MSG,
}


def received(
    requested: OnFailure,
    *,
    fast: bool = False,
    to: str = "nowhere",
    reply_to: str = "replies",
    size: int = 30,
) -> ReceivedMessage:
    payload = Message(
        header=Header(durable=not fast, priority=6),
        message_annotations={
            Symbol("x-opt-transmission"): [to, THERE, UInt(1)],
            Symbol("x-opt-report"): UInt(int(WORDS[requested])),
        },
        properties=Properties(message_id="ID:original", reply_to=reply_to),
        application_properties={"JMS_IBM_Format": "MQSTR", "colour": "red"},
        body=Data([b"x" * size]),
    ).encode()
    head = scan_head(payload)
    return ReceivedMessage(head, payload[head.bare_offset :], 0 if fast else 1, 77, fast)


class Receiver:
    """A queue manager with a dead-letter queue (or not), and a channel that receives."""

    def __init__(self, world: type[World] = World, dead_letters: str = "dead", **definition: object) -> None:
        self.world = world(ManagerOptions(queue_manager=THERE, dead_letter_queue=dead_letters))
        self.world.queue("replies")
        if dead_letters:
            self.world.queue(dead_letters)
        self.definition = replace(DEFINITION, **definition)  # type: ignore[arg-type]
        self.world.manager.channels.define(self.definition, self.world.now_us)
        self.answers = Answers()
        self.start()

    def start(self) -> None:
        self.end = self.world.manager.channels.open_receiving(CHANNEL, HERE, "0a", self.world.now_us)

    def take(self, message: ReceivedMessage) -> list[Action]:
        """The steps to the end; none if it could be put."""
        world, channels = self.world, self.world.manager.channels
        failure = channels.receive(
            *(self.end, message.head, message.body, message.sequence, message.origin_serial),
            *(message.fast, world.now_us),
        )
        if failure is None:
            return []
        handler = UndeliveredHandler(self.definition, None)
        step = handler.begin(failure, message)
        steps = [step.action]
        while step.action not in (Action.DONE, Action.BACK_OUT):
            assert handler.undelivered is not None
            step = handler.next(
                channels.put_undelivered(self.end, step.action, message, handler.undelivered, world.now_us)
            )
            steps.append(step.action)
        world.turn()
        return steps

    def commit(self) -> None:
        self.world.manager.channels.commit_received(self.end, LUWID, 1, self.answers, self.world.now_us)
        self.world.turn()
        assert self.answers.luwids[-1] == LUWID

    def back_out(self) -> None:
        self.world.manager.channels.roll_back_received(self.end, self.world.now_us)
        self.world.turn()

    def ends(self) -> list[tuple[Outcome, dict[str, object]]]:
        """Outcome and detail of what ended on the queue of the undelivered."""
        queue = self.world.manager.queues.get(UNDELIVERED)
        events = zip(self.world.transitions, self.world.details, strict=True)
        return [
            (Outcome(int(row["outcome"])), json.loads(detail))
            for row, detail in events
            if queue is not None and row["queue"] == queue.id and row["event"] in ENDS
        ]

    def came(self) -> list[tuple[str, int]]:
        """The arrivals that came through the channel: queue, and serial at the sender."""
        names = {queue.id: queue.name for queue in self.world.manager.queues.values()}
        return [
            (names[int(row["routing_set"])], int(row["parent_serial"]))
            for row in self.world.arrivals
            if row["flags"] & ArrivalFlag.RECEIVED
        ]


def header_of(letter: Read) -> DeadLetterHeader:
    found = dead_letter_header.header_of(letter.fields.annotation("x-opt-dead-letter"))
    assert found is not None
    return found


# --- each way


@pytest.mark.parametrize("fast", [False, True])
def test_what_asks_for_nothing_is_a_dead_letter_with_mqs_header(fast: bool) -> None:
    receiver = Receiver()
    assert receiver.take(received(OnFailure.NOTHING, fast=fast)) == [Action.DEAD_LETTER, Action.DONE]
    if not fast:
        assert on(receiver.world, "dead") == []
        receiver.commit()
    assert receiver.came() == [("dead", 77)]
    [letter] = on(receiver.world, "dead")
    header = header_of(letter)
    assert (header.reason, header.queue, header.queue_manager) == (2085, "nowhere", THERE)
    assert (header.format, header.put_appl_type, header.put_appl_name) == ("MQSTR", 7, THERE)
    assert (len(header.put_date), len(header.put_time)) == (8, 8)
    assert letter["colour"] == "red"
    assert letter.data == b"x" * 30
    assert letter.fields.annotation("x-opt-transmission") is None
    assert on(receiver.world) == []


@pytest.mark.parametrize("fast", [False, True])
def test_what_asks_to_be_discarded_is_and_the_ledger_says_so(fast: bool) -> None:
    receiver = Receiver()
    assert receiver.take(received(OnFailure.DISCARD, fast=fast)) == [Action.DISCARD, Action.DONE]
    if not fast:
        assert receiver.ends() == []
        receiver.commit()
    assert receiver.came() == [(UNDELIVERED, 77)]
    [(outcome, detail)] = receiver.ends()
    assert outcome is Outcome.DISCARDED
    assert (detail["reason"], detail["queue"], detail["queue_manager"]) == (2085, "nowhere", THERE)
    assert (detail["channel"], detail["condition"]) == (CHANNEL, "postroom:undelivered")
    assert "dropped" not in detail
    assert receiver.world.manager.queue(UNDELIVERED).is_empty()


@pytest.mark.parametrize("fast", [False, True])
def test_a_report_and_a_dead_letter(fast: bool) -> None:
    receiver = Receiver()
    steps = receiver.take(received(OnFailure.REPORT, fast=fast))
    assert steps == [Action.PUT_REPORT, Action.DEAD_LETTER, Action.DONE]
    if not fast:
        assert on(receiver.world) == []
        receiver.commit()
    [report] = on(receiver.world)
    assert (report.feedback, report.correlation_id, report.data) == (2085, "ID:original", b"x" * 30)
    assert report["colour"] is None
    assert len(on(receiver.world, "dead")) == 1


def test_a_report_and_the_message_discarded() -> None:
    receiver = Receiver()
    steps = receiver.take(received(OnFailure.REPORT_AND_DISCARD))
    assert steps == [Action.PUT_REPORT, Action.DISCARD, Action.DONE]
    receiver.commit()
    [report] = on(receiver.world)
    assert (report.feedback, report.data) == (2085, b"")
    assert on(receiver.world, "dead") == []
    assert [outcome for outcome, _ in receiver.ends()] == [Outcome.DISCARDED]


@pytest.mark.parametrize("fast", [False, True])
def test_return_to_sender(fast: bool) -> None:
    receiver = Receiver()
    steps = receiver.take(received(OnFailure.RETURN, fast=fast))
    assert steps == [Action.PUT_REPORT, Action.RETURN_TO_SENDER, Action.DONE]
    if not fast:
        receiver.commit()
    [(outcome, detail)] = receiver.ends()
    assert outcome is Outcome.RETURNED_TO_SENDER
    [report_serial] = [int(row["position"]) for row in receiver.world.arrivals if row["flags"] & 16]
    assert detail["report"] == report_serial
    [report] = on(receiver.world)
    assert (report.feedback, report.data, report["colour"]) == (2085, b"x" * 30, "red")
    assert on(receiver.world, "dead") == []


def test_return_to_a_sender_elsewhere_goes_on_the_transmission_queue() -> None:
    receiver = Receiver()
    receiver.world.queue(HERE, usage="transmission")
    receiver.take(received(OnFailure.RETURN, reply_to=f"replies@{HERE}"))
    assert on(receiver.world, HERE) == []
    receiver.commit()
    [report] = on(receiver.world, HERE)
    assert report.fields.annotation("x-opt-transmission") == ["replies", HERE, 1]


def test_what_can_not_be_returned_is_a_dead_letter_itself() -> None:
    receiver = Receiver()
    steps = receiver.take(received(OnFailure.RETURN, reply_to="also.nowhere"))
    assert steps == [Action.PUT_REPORT, Action.DEAD_LETTER, Action.DONE]
    receiver.commit()
    [letter] = on(receiver.world, "dead")
    assert (letter.data, header_of(letter).queue) == (b"x" * 30, "nowhere")
    assert letter.feedback is None


def test_a_report_that_can_not_be_put_is_a_dead_letter_beside_its_message() -> None:
    receiver = Receiver()
    receiver.take(received(OnFailure.REPORT, reply_to="also.nowhere"))
    receiver.commit()
    report, letter = on(receiver.world, "dead")
    assert (report.feedback, header_of(report).queue) == (2085, "also.nowhere")
    assert (letter.feedback, header_of(letter).queue) == (None, "nowhere")


@pytest.mark.parametrize("requested", [OnFailure.NOTHING, OnFailure.REPORT])
def test_without_a_dead_letter_queue_the_batch_is_backed_out(requested: OnFailure) -> None:
    receiver = Receiver(dead_letters="")
    assert receiver.take(received(requested))[-1] is Action.BACK_OUT
    receiver.back_out()
    assert on(receiver.world) == []
    assert {row["outcome"] for row in receiver.world.transitions} <= {0, Outcome.ROLLED_BACK}


def test_usedlq_no_is_as_if_there_were_none() -> None:
    receiver = Receiver(use_dead_letter_queue=False)
    assert receiver.take(received(OnFailure.NOTHING)) == [Action.BACK_OUT]


@pytest.mark.parametrize("usable", [False, True])
def test_a_fast_message_with_nowhere_to_go_is_dropped_and_accounted_for(usable: bool) -> None:
    receiver = Receiver(use_dead_letter_queue=usable)
    receiver.world.manager.pause(receiver.world.manager.queue("dead"), "production", receiver.world.now_us)
    steps = receiver.take(received(OnFailure.NOTHING, fast=True))
    assert steps == [*[Action.DEAD_LETTER] * usable, Action.DROP, Action.DONE]
    [(outcome, detail)] = receiver.ends()
    assert outcome is Outcome.DISCARDED
    assert (detail["dropped"], detail["reason"]) == (True, 2085)
    assert receiver.came() == [(UNDELIVERED, 77)]


def test_a_full_dead_letter_queue_backs_out() -> None:
    receiver = Receiver()
    receiver.world.queue("dead2", max_messages=1)
    receiver.world.put(receiver.world.manager.queue("dead2"))
    receiver.world.manager.core.options = replace(receiver.world.options, dead_letter_queue="dead2")
    assert receiver.take(received(OnFailure.NOTHING)) == [Action.DEAD_LETTER, Action.BACK_OUT]


def test_a_full_queue_is_told_as_that() -> None:
    receiver = Receiver()
    receiver.world.put(receiver.world.queue("full", max_messages=1))
    receiver.take(received(OnFailure.NOTHING, to="full"))
    receiver.commit()
    [letter] = on(receiver.world, "dead")
    assert header_of(letter).reason == Reason.Q_FULL


def test_a_dead_letter_makes_no_reports_about_itself() -> None:
    receiver = Receiver()
    message = received(OnFailure.NOTHING)
    message.head.report = Report.COD | Report.COA
    receiver.take(message)
    receiver.commit()
    on(receiver.world, "dead")
    assert on(receiver.world) == []


# --- in the ledger


@pytest.mark.parametrize("requested", OnFailure)
def test_a_crash_before_the_commit_leaves_nothing(requested: OnFailure, tmp_path: Path) -> None:
    receiver = Receiver(LedgerWorld)
    receiver.take(received(requested))
    assert isinstance(receiver.world, LedgerWorld)
    receiver.world.crash()
    assert on(receiver.world) == []
    assert on(receiver.world, "dead") == []
    receiver.world.check_whole(tmp_path)


@pytest.mark.parametrize("requested", OnFailure)
def test_a_crash_after_the_commit_changes_nothing(requested: OnFailure, tmp_path: Path) -> None:
    receiver = Receiver(LedgerWorld)
    receiver.take(received(requested, size=300_000))
    receiver.commit()
    assert isinstance(receiver.world, LedgerWorld)
    receiver.world.crash()
    wants_report = requested in (
        OnFailure.REPORT,
        OnFailure.REPORT_AND_DISCARD,
        OnFailure.RETURN,
    )
    assert len(on(receiver.world)) == wants_report
    assert len(on(receiver.world, "dead")) == (requested in (OnFailure.NOTHING, OnFailure.REPORT))
    receiver.world.check_whole(tmp_path)


# --- the header


NAMES = st.text(max_size=48)


@st.composite
def headers(draw: st.DrawFn) -> DeadLetterHeader:
    header = DeadLetterHeader(draw(st.integers(0, 1 << 30)), draw(NAMES), draw(NAMES))
    header.format = draw(NAMES)
    header.encoding, header.ccsid = draw(st.integers(0, 1 << 20)), draw(st.integers(0, 1 << 20))
    header.put_appl_type, header.put_appl_name = draw(st.integers(0, 40)), draw(NAMES)
    header.put_date, header.put_time = draw(NAMES), draw(NAMES)
    return header


@given(headers())
def test_a_header_comes_off_as_it_was_put_on(header: DeadLetterHeader) -> None:
    message = received(OnFailure.NOTHING)
    letter = dead_letter_header.with_dead_letter_header(message.body, header)
    value, rest = take_annotation(letter, dead_letter_header.DEAD_LETTER)
    assert (dead_letter_header.header_of(value), rest) == (header, message.body)


@given(
    st.recursive(st.none() | st.integers() | st.text() | st.binary(), st.lists)
    | st.dictionaries(st.text(), st.text())
)
def test_what_is_no_header_is_none(value: object) -> None:
    assert dead_letter_header.header_of(value) is None


def test_what_a_header_leaves_out_has_its_default() -> None:
    header = dead_letter_header.header_of({"reason": 2053, "queue": "Q", "queue-manager": "QM", "ccsid": "x"})
    expected = DeadLetterHeader(2053, "Q", "QM")
    expected.put_appl_type = 0
    assert header == expected

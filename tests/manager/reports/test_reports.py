"""Reports that the queue manager makes: when, about what, with which data and ids; and their options."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postroom.amqp.encoding.types import ULong
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.sections import Data, Value
from postroom.manager.administration.subscriptions import Subscribing
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import ReportOptionsInvalid
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.kernel.turn_state import Cause
from postroom.manager.message_store.put_verbs import Put
from postroom.manager.reports.report_message import put_date_and_time
from postroom.manager.reports.reports import MAX_WAITING
from postroom.model import mq
from postroom.model.ids import unpack_unique_id
from postroom.model.mq import Feedback, Report
from tests.manager.over_ledger import LedgerWorld
from tests.manager.reports.report_messages import BODY, TEXT, asking, on, put
from tests.manager.reports.report_messages import Report as Read
from tests.manager.store_face import Recorder, StoreFace, Uid
from tests.manager.world import START_US, TestSink, World
from tests.manager.xa_world import Xa
from tests.sampling import examples

LEVELS = {
    Feedback.COA: (Report.COA, Report.COA_WITH_DATA, Report.COA_WITH_FULL_DATA),
    Feedback.COD: (Report.COD, Report.COD_WITH_DATA, Report.COD_WITH_FULL_DATA),
    Feedback.EXPIRATION: (
        *(Report.EXPIRATION, Report.EXPIRATION_WITH_DATA),
        Report.EXPIRATION_WITH_FULL_DATA,
    ),
}
ALL = int(Report.COA | Report.COD | Report.EXPIRATION | Report.EXCEPTION)


@pytest.fixture(params=[World, LedgerWorld], ids=["plain", "ledger"])
def world(request: pytest.FixtureRequest) -> World:
    world: World = request.param(ManagerOptions(queue_manager="LONDON", dead_letter_queue="dead"))
    for name in ("q", "replies", "dead"):
        world.queue(name)
    return world


def take(world: World, name: str = "q") -> None:
    """Have one message consumed."""
    consumer = world.consumer(world.manager.queue(name), 1)
    world.turn()
    for entry in world.held(consumer):
        world.accept(consumer, entry)
    world.turn()
    world.close(consumer)
    world.turn()


def bring_about(world: World, feedback: Feedback, word: int, **more: object) -> None:
    """Have a message arrive, be delivered, or expire, that asks for ``word``."""
    ttl = 5 if feedback is Feedback.EXPIRATION else None
    refused = put(world, world.manager.queue("q"), asking(word, ttl=ttl, **more))  # type: ignore[arg-type]
    assert refused is None
    if feedback is Feedback.EXPIRATION:
        world.now_us += 10_000
    if feedback is not Feedback.COA:
        take(world)


# --- when


def test_arrival_is_confirmed_when_the_message_is_available(world: World) -> None:
    bring_about(world, Feedback.COA, Report.COA)
    assert [report.feedback for report in on(world)] == [259]


def test_delivery_is_confirmed_when_the_message_is_consumed(world: World) -> None:
    put(world, world.manager.queue("q"), asking(Report.COD))
    assert on(world) == []
    take(world)
    assert [report.feedback for report in on(world)] == [260]


def test_a_message_that_asks_for_nothing_makes_no_report(world: World) -> None:
    bring_about(world, Feedback.COD, 0)
    assert on(world) == []


def test_arrival_in_a_transaction_is_confirmed_at_its_commit(world: World) -> None:
    transaction = world.manager.begin(world.now_us)
    put(world, world.manager.queue("q"), asking(Report.COA), transaction)
    assert on(world) == []
    world.manager.commit(transaction, world.now_us)
    world.turn()
    assert [report.feedback for report in on(world)] == [259]


def test_arrival_in_a_transaction_that_is_rolled_back_is_not_confirmed(world: World) -> None:
    transaction = world.manager.begin(world.now_us)
    put(world, world.manager.queue("q"), asking(Report.COA), transaction)
    world.manager.rollback(transaction, world.now_us)
    world.turn()
    assert on(world) == []


def test_arrival_of_a_delayed_message_is_confirmed_at_its_birth(world: World) -> None:
    put(world, world.manager.queue("q"), asking(Report.COA, annotations={"x-opt-delivery-delay": 1000}))
    assert on(world) == []
    world.turn(2000)
    assert [report.feedback for report in on(world)] == [259]


def test_delivery_in_a_transaction_is_confirmed_at_its_commit_once(world: World) -> None:
    put(world, world.manager.queue("q"), asking(Report.COD))
    consumer = world.consumer(world.manager.queue("q"), 1)
    world.turn()
    [entry] = world.held(consumer)
    first = world.manager.begin(world.now_us)
    world.accept(consumer, entry, first)
    world.manager.rollback(first, world.now_us)
    world.credit(consumer, 1)
    world.turn()
    assert on(world) == []
    [entry] = world.held(consumer)
    second = world.manager.begin(world.now_us)
    world.accept(consumer, entry, second)
    world.manager.commit(second, world.now_us)
    world.turn()
    assert [report.feedback for report in on(world)] == [260]


def test_browsing_and_going_back_confirm_nothing(world: World) -> None:
    queue = world.manager.queue("q")
    put(world, queue, asking(Report.COD | Report.COA))
    assert [report.feedback for report in on(world)] == [259]
    world.browser(queue, 5)
    consumer = world.consumer(queue, 1)
    world.turn()
    world.release(consumer, world.held(consumer)[0])
    world.turn()
    world.close(consumer)
    world.turn()
    assert on(world) == []


def test_a_presettled_delivery_is_confirmed(world: World) -> None:
    put(world, world.manager.queue("q"), asking(Report.COD))
    on(world, "q")
    assert [report.feedback for report in on(world)] == [260]


def test_expiry_is_told_when_it_is_met(world: World) -> None:
    put(world, world.manager.queue("q"), asking(Report.EXPIRATION, ttl=60_000))
    world.turn()
    world.now_us += 61_000_000
    take(world)
    reports = on(world)
    assert [report.feedback for report in reports] == [258]


def test_a_deleted_or_purged_message_makes_no_report(world: World) -> None:
    put(world, world.manager.queue("q"), asking(ALL))
    on(world)
    world.manager.purge_queue("q", world.now_us)
    world.turn()
    assert on(world) == []


def test_a_large_message_is_read_for_its_report(world: World) -> None:
    bring_about(world, Feedback.COD, Report.COD_WITH_FULL_DATA, body=Data([b"x" * 200_000]))
    [report] = on(world)
    assert report.data == b"x" * 200_000


def test_a_report_too_large_for_one_piece(world: World) -> None:
    bring_about(world, Feedback.COA, Report.COA_WITH_FULL_DATA, body=Data([b"x" * 400_000]))
    [report] = on(world)
    assert report.data == b"x" * 400_000


# --- what it says


@pytest.mark.parametrize("feedback", LEVELS)
def test_data_as_much_as_is_asked_for(world: World, feedback: Feedback) -> None:
    for word, data in zip(LEVELS[feedback], (b"", TEXT.encode()[:100]), strict=False):
        bring_about(world, feedback, word, JMS_IBM_Format="MQSTR", colour="red")
        [report] = on(world)
        assert (report.data, report["colour"]) == (data, None)
        assert report["JMS_IBM_Format"] == ("MQSTR" if data else None)
    bring_about(world, feedback, LEVELS[feedback][2], JMS_IBM_Format="MQSTR", colour="red")
    [report] = on(world)
    assert report.message.body == BODY
    assert (report["colour"], report["JMS_IBM_Format"]) == ("red", "MQSTR")


def test_what_a_report_says_of_itself(world: World) -> None:
    world.now_us = START_US
    bring_about(world, Feedback.COA, Report.COA, durable=False, priority=7)
    consumer = world.consumer(world.manager.queue("replies"), 1)
    world.turn()
    [entry] = world.held(consumer)
    assert (entry.priority, entry.flags & 1, entry.expiry_us) == (7, 0, 0)
    delivery = world.delivered[-1]
    report = on_fields(delivery.body)
    assert report["JMS_IBM_MsgType"] == 4
    assert report["JMS_IBM_PutApplType"] == 7
    assert report["JMSXAppID"] == "LONDON"
    assert (report["JMS_IBM_PutDate"], report["JMS_IBM_PutTime"]) == ("20231114", "22132000")


def on_fields(body: bytes) -> dict[str, object]:
    return dict(Read(body, None).message.application_properties)


@given(st.integers(0, 4_102_444_800_000_000))
def test_dates_are_those_of_the_calendar(time_us: int) -> None:
    then = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)
    clock = then.strftime("%H%M%S") + f"{then.microsecond // 10_000:02}"
    assert put_date_and_time(time_us) == (then.strftime("%Y%m%d"), clock)


@pytest.mark.parametrize(
    ("word", "same_id", "correlation"),
    [
        (0, False, "ID:original"),
        (Report.PASS_MSG_ID, True, "ID:original"),
        (Report.PASS_CORREL_ID, False, "mine"),
        (Report.PASS_MSG_ID | Report.PASS_CORREL_ID, True, "mine"),
    ],
)
def test_ids(world: World, word: int, same_id: bool, correlation: str) -> None:
    bring_about(world, Feedback.COA, Report.COA | word, correlation_id="mine")
    [report] = on(world)
    assert (report.message_id == "ID:original") == same_id
    assert report.message_id is not None
    assert report.correlation_id == correlation


def test_ids_keep_their_types(world: World) -> None:
    bring_about(world, Feedback.COA, Report.COA, message_id=7)
    [report] = on(world)
    assert report.correlation_id == 7
    assert isinstance(report.correlation_id, ULong)


def test_every_report_has_an_id_of_its_own(world: World) -> None:
    for _ in range(3):
        bring_about(world, Feedback.COD, Report.COA | Report.COD)
    assert len({report.message_id for report in on(world)}) == 6


def test_discard_and_expiry_are_passed_if_asked_for(world: World) -> None:
    word = int(Report.COA | Report.DISCARD_MSG | Report.PASS_DISCARD_AND_EXPIRY)
    put(world, world.manager.queue("q"), asking(word, ttl=60_000))
    consumer = world.consumer(world.manager.queue("replies"), 1)
    world.turn()
    [entry] = world.held(consumer)
    assert entry.expiry_us == world.now_us + 60_000_000
    assert Read(world.delivered[-1].body, None).fields.annotation("x-opt-report") == Report.DISCARD_MSG


def test_without_that_option_neither_is_passed(world: World) -> None:
    put(world, world.manager.queue("q"), asking(int(Report.COA | Report.DISCARD_MSG), ttl=60_000))
    consumer = world.consumer(world.manager.queue("replies"), 1)
    world.turn()
    assert world.held(consumer)[0].expiry_us == 0


def test_a_report_about_expiry_does_not_expire(world: World) -> None:
    word = int(Report.EXPIRATION | Report.PASS_DISCARD_AND_EXPIRY)
    bring_about(world, Feedback.EXPIRATION, word)
    assert len(on(world)) == 1


@pytest.mark.parametrize(
    ("text", "durable", "expected"),
    [
        ("message", True, 1),
        ("message", False, 0),
        ("persistent", False, 1),
        ("non-persistent", True, 0),
    ],
)
def test_persistence(text: str, durable: bool, expected: int) -> None:
    world = World(ManagerOptions(report_persistence=text))
    world.queue("q")
    world.queue("replies")
    bring_about(world, Feedback.COA, Report.COA, durable=durable)
    consumer = world.consumer(world.manager.queue("replies"), 1)
    world.turn()
    assert world.held(consumer)[0].flags & 1 == expected


# --- where it goes


def test_a_report_that_can_not_be_put_is_a_dead_letter(world: World) -> None:
    bring_about(world, Feedback.COA, Report.COA, reply_to="nowhere")
    [letter] = on(world, "dead")
    assert letter.feedback == 259
    header = letter.fields.annotation("x-opt-dead-letter")
    assert isinstance(header, dict)
    assert (header["reason"], header["queue"], header["queue-manager"]) == (2085, "nowhere", "LONDON")


def test_a_reply_queue_without_room_makes_it_a_dead_letter(world: World) -> None:
    world.put(world.queue("small", max_messages=1))
    bring_about(world, Feedback.COA, Report.COA, reply_to="small")
    [letter] = on(world, "dead")
    header = letter.fields.annotation("x-opt-dead-letter")
    assert isinstance(header, dict)
    assert (header["reason"], header["queue"]) == (2053, "small")


def test_a_report_with_nowhere_to_go_ends_in_the_ledger() -> None:
    world = World()
    world.queue("q")
    bring_about(world, Feedback.COA, Report.COA, reply_to="nowhere")
    assert world.manager.core.reports.unmade == 1
    assert any(b'"reason": 2085' in detail and b'"report": true' in detail for detail in world.details)


def test_reports_travel_to_other_queue_managers(world: World) -> None:
    world.queue("PARIS", usage="transmission")
    bring_about(world, Feedback.COA, Report.COA, reply_to="replies@PARIS")
    [report] = on(world, "PARIS")
    assert report.fields.annotation("x-opt-transmission") == ["replies", "PARIS", 1]


def test_a_message_on_its_way_has_not_arrived(world: World) -> None:
    queue = world.queue("PARIS", usage="transmission")
    put(
        world,
        queue,
        asking(Report.COA | Report.COD, annotations={"x-opt-transmission": ["there", "PARIS", 1]}),
    )
    on(world, "PARIS")
    assert on(world) == []


def test_every_subscription_has_its_reports(world: World) -> None:
    topic = world.manager.topic_for_attach("news", world.now_us)
    for name in ("one", "two"):
        world.manager.subscribe(Subscribing("news", "client", name, durable=True), world.now_us)
    put(world, topic, asking(Report.COA))
    assert [report.feedback for report in on(world)] == [259, 259]


# --- about reports none are made


def test_no_report_about_a_report(world: World) -> None:
    bring_about(world, Feedback.COD, ALL, JMS_IBM_MsgType=4)
    assert on(world) == []


def test_reports_ask_for_nothing(world: World) -> None:
    put(world, world.manager.queue("q"), asking(Report.COA_WITH_FULL_DATA, JMS_IBM_Report_COD=0x800))
    reports = on(world)
    assert [report["JMS_IBM_Report_COD"] for report in reports] == [None]
    assert on(world) == []


# --- options


@pytest.mark.parametrize(
    ("name", "value", "feedback"),
    [
        ("JMS_IBM_Report_COA", 0x100, 259),
        ("JMS_IBM_Report_COD", 0x800, 260),
        ("JMS_IBM_MQMD_Report", 0x100, 259),
    ],
)
def test_options_come_as_properties_too(world: World, name: str, value: int, feedback: int) -> None:
    bring_about(world, Feedback.COD, 0, **{name: value})
    assert [report.feedback for report in on(world)] == [feedback]


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(0, mq.WORD_MASK), st.booleans())
def test_which_words_are_refused(word: int, transmitted: bool) -> None:
    world = World()
    queue = world.queue("q", usage="transmission" if transmitted else "normal")
    refused = put(world, queue, asking(word))
    unknown = word & ~mq.SUPPORTED
    wrong = unknown & (0x101C0000 if transmitted else 0x101C0000 | 0x0003FF00) != 0
    wrong = wrong or (word & 0x07000000) not in (0, 0x01000000, 0x03000000, 0x07000000)
    wrong = wrong or (word & 0x00E00000) not in (0, 0x00200000, 0x00600000, 0x00E00000)
    wrong = wrong or (word & 0x700) not in (0, 0x100, 0x300, 0x700)
    wrong = wrong or (word & 0x3800) not in (0, 0x800, 0x1800, 0x3800)
    assert (refused is not None) == wrong
    if refused is not None:
        assert refused[0] == "amqp:invalid-field"
        assert "MQRC_REPORT_OPTIONS_ERROR (2061)" in refused[1]


def test_an_option_that_is_not_known_is_warned_of() -> None:
    world = World()
    queue = world.queue("q")
    payload = asking(Report.ACTIVITY)
    head = scan_head(payload)
    body = payload[head.bare_offset :]
    world.manager.put(world._producer, queue, head, body, TestSink(), 1, world.now_us)
    [warned] = world.manager.take_effects().warned
    assert warned.queue == "q"
    assert "MQRC_UNKNOWN_REPORT_OPTION (2104): report options 0x00000004" in warned.text


@pytest.mark.parametrize("word", [Report.COA, Report.COD, Report.EXPIRATION, Report.EXCEPTION, Report.PAN])
def test_a_report_needs_somewhere_to_go(word: int) -> None:
    world = World()
    refused = put(world, world.queue("q"), asking(word, reply_to=None))
    assert refused is not None
    assert "MQRC_MISSING_REPLY_TO_Q (2027)" in refused[1]
    assert put(world, world.queue("q"), asking(Report.DISCARD_MSG, reply_to=None)) is None


def test_text_is_counted_in_bytes(world: World) -> None:
    bring_about(world, Feedback.COA, Report.COA_WITH_DATA, body=Value("ü" * 80))
    [report] = on(world)
    assert report.data == ("ü" * 80).encode()[:100]


def test_other_bodies_give_the_bytes_of_their_encoding(world: World) -> None:
    bring_about(world, Feedback.COA, Report.COA_WITH_DATA, body=Value({"key": "value"}))
    [report] = on(world)
    assert b"key" in report.data
    assert b"value" in report.data


# --- after a restart


def test_a_message_from_before_a_restart_has_its_reports() -> None:
    world = LedgerWorld()
    world.queue("q")
    world.queue("replies")
    put(world, world.manager.queue("q"), asking(Report.COA | Report.COD))
    world.restart()
    take(world)
    assert [report.feedback for report in on(world)] == [259, 260]


# --- the message store


def store_put(face: StoreFace, payload: bytes, confirm: int = 0) -> Uid:
    head = scan_head(payload)
    asker = Recorder()
    face.begin(
        Put(face.queue, asker, face.world._producer, head, payload[head.bare_offset :], confirm, False), asker
    )
    face.world.turn()
    return unpack_unique_id(asker.result().unique_id)


def test_confirmed_puts_and_gets_of_the_message_store_are_reported(world: World) -> None:
    face = StoreFace(world)
    uid = store_put(face, asking(Report.COA | Report.COD), confirm=5)
    assert on(world) == []
    face.confirm_put(uid, 5)
    assert [report.feedback for report in on(world)] == [259]
    face.get(confirm=7)
    assert on(world) == []
    face.confirm_get(uid, 7)
    assert [report.feedback for report in on(world)] == [260]


def test_the_message_store_refuses_options_that_can_not_be(world: World) -> None:
    with pytest.raises(ReportOptionsInvalid, match="2061"):
        store_put(StoreFace(world), asking(0x200))


# --- prepared branches


@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_branch_reports_when_it_is_committed_after_a_restart(commit: bool) -> None:
    world = LedgerWorld()
    source, target = world.queue("q"), world.queue("target")
    world.queue("replies")
    put(world, source, asking(Report.COD_WITH_FULL_DATA))
    consumer = world.consumer(source, 1, xa=True)
    world.turn()
    branch = Xa(world)
    transaction = branch.start().transaction
    put(world, target, asking(Report.COA_WITH_DATA, durable=False), transaction)
    branch.end(consumer=consumer)
    branch.prepare()
    world.turn()
    world.restart()
    assert on(world) == []
    if commit:
        Xa(world).commit()
    else:
        Xa(world).rollback()
    world.turn()
    assert sorted(str(report.feedback) for report in on(world)) == (["259", "260"] if commit else [])


# --- bounds


def test_reports_that_wait_for_their_messages_are_bounded() -> None:
    world = LedgerWorld()
    queue = world.queue("q")
    world.queue("replies")
    reports = world.manager.core.reports
    unwritten = Cause(Entry(queue, 1, 4, 2, 0, 0, 10, None), 260)
    unwritten.entry.body_serial = 1 << 60
    reports.waiting.extend([unwritten] * MAX_WAITING)
    payload = asking(Report.COA_WITH_FULL_DATA, body=Data([b"x" * 300_000]))
    head = scan_head(payload)
    for expected in (1, 0):
        upload = world.manager.begin_upload(world._producer)
        world.manager.upload_chunk(upload, payload[head.bare_offset :], world.now_us)
        world.manager.finish_upload(upload, queue, head, TestSink(), 1, world.now_us)
        assert len(world.manager.take_effects().warned) == expected
    assert reports.unmade == 2
    reports.waiting.clear()
    bring_about(world, Feedback.COA, Report.COA)
    assert [report.feedback for report in on(world)] == [259]

"""Ledgers for the audit: one without a fault and with something of everything, one with a queue for each
fault."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from postroom.ledger.format.block import Group
from postroom.ledger.format.records import TransitionFlag
from postroom.model.codes import DelayCause
from tests.ledger.ledger_maker import START_US, E, H, LedgerMaker, O, S

Plant = Callable[[LedgerMaker, int], None]
"""Makes a fault on a queue."""

LINK: Final = 7
OTHER_LINK: Final = 8
LATER_US: Final = START_US + 3_600_000_000


def held(maker: LedgerMaker, queue: int, holder: int, **put: object) -> int:
    """Put in a local transaction."""
    return maker.put(
        queue,
        event=E.PUT_HELD,
        to_state=S.PUT_UNCONFIRMED,
        holder_kind=H.LOCAL_TRANSACTION,
        holder=holder,
        **put,  # type: ignore[arg-type]
    )


def decide(
    maker: LedgerMaker, queue: int, holder: int, *serials: int, commit: bool = True, causes: int = 0
) -> None:
    """One record decides about puts of a local transaction; their ranges are as the serials are given."""
    to_state, outcome, event = (S.AVAILABLE, O.NONE, E.CONFIRM)
    if not commit:
        to_state, outcome, event = (S.DELETED, O.ROLLED_BACK, E.UNDO)
    elif causes:
        to_state = S.DELAYED
    ranges = [(serial, serial) for serial in serials]
    group = Group(queue, S.PUT_UNCONFIRMED, to_state, outcome, causes, 0, 0, ranges)
    maker.group(event, [group], decision=True, holder_kind=H.LOCAL_TRANSACTION, holder=holder)


def returned(maker: LedgerMaker, queue: int, report: int) -> None:
    maker.change(
        maker.put(queue), queue, E.RETURN_TO_SENDER, S.AVAILABLE, S.DELETED,
        holder_kind=H.NONE, holder=0, outcome=O.RETURNED_TO_SENDER, detail={"report": report},
    )  # fmt: skip


def born(maker: LedgerMaker, serial: int, queue: int) -> None:
    """The delay of an unborn one, or of one that a pause held back, is over: it was never available."""
    maker.change(
        serial, queue, E.DUE, S.DELAYED, S.AVAILABLE, holder_kind=H.NONE, holder=0, flags=TransitionFlag.FIRST
    )


def unborn(maker: LedgerMaker, queue: int, due_us: int, **put: object) -> int:
    causes = int(DelayCause.UNBORN)
    return maker.put(queue, to_state=S.DELAYED, causes=causes, due_us=due_us, **put)  # type: ignore[arg-type]


# --- without a fault ------------------------------------------------------------------------------


def clean(maker: LedgerMaker) -> None:
    """Something of every kind."""
    orders, dead, archive = maker.queue("orders"), maker.queue("orders.dead"), maker.queue("archive")
    maker.producer(3, "shop")
    for number in range(10):
        maker.consume(maker.put(orders, message_id=b"m%d" % number, producer=3), orders)
    back = maker.put(orders)
    maker.fail(back, orders)
    maker.fail(back, orders)
    maker.commit()
    maker.dead_letter(back, orders, dead)
    expired = maker.put(orders)
    maker.change(
        expired, orders, E.EXPIRE, S.AVAILABLE, S.DELETED, holder_kind=H.NONE, holder=0, outcome=O.EXPIRED
    )
    maker.next_file()
    taken = maker.put(archive)
    maker.acquire(taken, archive)
    maker.consume(maker.put(maker.routing_set(orders, archive)), archive)
    tentative = [held(maker, archive, 9), held(maker, archive, 9)]
    ranges = [(tentative[0], tentative[1])]
    done = Group(archive, S.PUT_UNCONFIRMED, S.AVAILABLE, O.NONE, 0, 0, 0, ranges)
    maker.group(E.CONFIRM, [done], decision=True, holder_kind=H.LOCAL_TRANSACTION, holder=9)
    fleeting = maker.put(archive, durable=False, body=None)
    maker.next_file(new_epoch=True)
    lost = Group(archive, S.AVAILABLE, S.DELETED, O.LOST, 0, 0, 0, [(fleeting, fleeting)])
    maker.group(E.RESTART, [lost])
    maker.change(taken, archive, E.RESTART, S.GET_UNCONFIRMED, S.AVAILABLE, delivery_delta=1)
    purged = Group(archive, S.AVAILABLE, S.DELETED, O.PURGED, 0, 0, 0, ranges)
    maker.group(E.PURGE, [purged])
    returned(maker, maker.queue("$undelivered"), maker.put(maker.queue("replies"), adverse=True))
    held(maker, maker.queue("in transit"), 10)
    _in_order(maker, maker.queue("in order"))
    _batches(maker, maker.queue("batches"))
    _ids(maker, maker.queue("ids"), maker.queue("remembered", duplicate_window=2))
    maker.act(user="alice", container="console", operation="DELETE", type="queue", name="old", status=204)
    maker.act(user="mallory", remote="192.0.2.9:4000", operation="SIGN-IN", status=401, count=3)


def _in_order(maker: LedgerMaker, queue: int) -> None:
    """Later ones overtake those that have to wait."""
    maker.producer(LINK, "link")
    late = unborn(maker, queue, LATER_US, producer=LINK)
    soon = unborn(maker, queue, LATER_US - 1, producer=LINK)
    open_, sure = held(maker, queue, 11, producer=LINK), held(maker, queue, 12, producer=LINK)
    maker.put(queue, producer=LINK)
    decide(maker, queue, 12, sure)
    decide(maker, queue, 11, open_)
    born(maker, soon, queue)
    born(maker, late, queue)


def _ids(maker: LedgerMaker, queue: int, remembered: int) -> None:
    """Ids that come again, and are no duplicates."""
    first = maker.put(queue, message_id=b"again", producer=LINK, creation_us=START_US)
    maker.put(queue, message_id=b"again", producer=OTHER_LINK, creation_us=START_US)  # resent
    maker.put(queue, message_id=b"again", producer=LINK, creation_us=START_US + 1)  # repeated
    maker.change(first, queue, E.MOVE, S.AVAILABLE, S.DELETED, holder_kind=H.NONE, holder=0, outcome=O.MOVED)
    maker.put(queue, message_id=b"again", event=E.MOVE, parent=(first, queue))  # moved
    back = held(maker, queue, 13, message_id=b"taken back", producer=LINK, creation_us=START_US)
    decide(maker, queue, 13, back, commit=False)
    maker.put(queue, message_id=b"taken back", producer=LINK, creation_us=START_US)
    for name in (b"a", b"b", b"c", b"a"):  # two are remembered
        maker.put(remembered, message_id=name, producer=LINK)


# --- faults ---------------------------------------------------------------------------------------


def _duplicated_event(maker: LedgerMaker, queue: int) -> None:
    serial = maker.put(queue)
    maker.acquire(serial, queue)
    maker.acquire(serial, queue)


def _confirmed_twice(maker: LedgerMaker, queue: int) -> None:
    serial = maker.put(queue)
    maker.consume(serial, queue)
    maker.confirm(serial, queue)


def _missing_transition(maker: LedgerMaker, queue: int) -> None:
    maker.confirm(maker.put(queue), queue)


def _lost_arrival(maker: LedgerMaker, queue: int) -> None:
    other = maker.put(maker.queue(f"beside {queue}"))
    maker.consume(other, queue)


def _second_arrival(maker: LedgerMaker, queue: int) -> None:
    maker.put(maker.routing_set(queue, queue))


def _illegal_transition(maker: LedgerMaker, queue: int) -> None:
    serial = maker.put(queue)
    maker.change(serial, queue, E.CONFIRM, S.AVAILABLE, S.DELETED, outcome=O.CONSUMED)


def _wrong_kind(maker: LedgerMaker, queue: int) -> None:
    serial = maker.put(queue)
    maker.change(serial, queue, E.LOCK, S.AVAILABLE, S.LOCKED_FOR_BROWSE, holder_kind=H.CONSUMER)


def _another_holder(maker: LedgerMaker, queue: int) -> None:
    serial = maker.put(queue)
    maker.acquire(serial, queue)
    maker.change(serial, queue, E.CONFIRM, S.GET_UNCONFIRMED, S.DELETED, holder=12_345, outcome=O.CONSUMED)


def _missing_child(maker: LedgerMaker, queue: int) -> None:
    maker.dead_letter(maker.put(queue), queue, queue, children=0)


def _second_child(maker: LedgerMaker, queue: int) -> None:
    maker.dead_letter(maker.put(queue), queue, queue, children=2)


def _child_without_move(maker: LedgerMaker, queue: int) -> None:
    parent = maker.put(queue)
    maker.put(queue, event=E.DEAD_LETTER, parent=(parent, queue))


def _stored_message_lost(maker: LedgerMaker, queue: int) -> None:
    serial = maker.put(queue)
    maker.group(E.RESTART, [Group(queue, S.AVAILABLE, S.DELETED, O.LOST, 0, 0, 0, [(serial, serial)])])


def _missing_report(maker: LedgerMaker, queue: int) -> None:
    """Returned, with a report that is none."""
    returned(maker, queue, 1)


def _half_committed(maker: LedgerMaker, queue: int) -> None:
    first, second = held(maker, queue, 50), held(maker, queue, 50)
    decide(maker, queue, 50, first)
    decide(maker, queue, 50, second, commit=False)


def _two_decisions(maker: LedgerMaker, queue: int) -> None:
    first, second = held(maker, queue, 51), held(maker, queue, 51)
    decide(maker, queue, 51, first)
    decide(maker, queue, 51, second)


def _left_out_of_the_commit(maker: LedgerMaker, queue: int) -> None:
    first, _ = held(maker, queue, 52), held(maker, queue, 52)
    decide(maker, queue, 52, first)


def _left_out_of_the_rollback(maker: LedgerMaker, queue: int) -> None:
    first, _ = held(maker, queue, 53), held(maker, queue, 53)
    decide(maker, queue, 53, first, commit=False)


def _left_out_of_the_batch(maker: LedgerMaker, queue: int) -> None:
    """A channel's; nobody is known to have received the other."""
    first, second = maker.put(queue, durable=False), maker.put(queue, durable=False)
    for serial in (first, second):
        maker.change(
            serial, queue, E.ACQUIRE, S.AVAILABLE, S.GET_UNCONFIRMED, holder_kind=H.CHANNEL_BATCH, holder=54
        )
    group = Group(queue, S.GET_UNCONFIRMED, S.DELETED, O.FORWARDED, 0, 0, 0, [(first, first)])
    maker.group(E.FORWARD, [group], decision=True, holder_kind=H.CHANNEL_BATCH, holder=54)


def _used_after_its_decision(maker: LedgerMaker, queue: int) -> None:
    decide(maker, queue, 55, held(maker, queue, 55))
    held(maker, queue, 55)


def _sent(maker: LedgerMaker, queue: int, holder: int, name: str) -> int:
    """Put in the branch of a Spark sink."""
    maker.holder(holder, H.SPARK_BRANCH, name=name, container=f"worker/{holder}")
    return maker.put(
        queue, event=E.PUT_HELD, to_state=S.PUT_UNCONFIRMED, holder_kind=H.SPARK_BRANCH, holder=holder
    )


def _decided(maker: LedgerMaker, queue: int, holder: int, serial: int, commit: bool = True) -> None:
    to_state, outcome, event = (
        (S.AVAILABLE, O.NONE, E.CONFIRM) if commit else (S.DELETED, O.ROLLED_BACK, E.UNDO)
    )
    group = Group(queue, S.PUT_UNCONFIRMED, to_state, outcome, 0, 0, 0, [(serial, serial)])
    maker.group(event, [group], decision=True, holder_kind=H.SPARK_BRANCH, holder=holder)


def _batches(maker: LedgerMaker, queue: int) -> None:
    """Of a Spark sink: two that are decided, the first with two winners and a loser, and one that isn't."""
    names = ("0-0-0-60@app", "0-1-0-61@app", "0-1-1-62@app", "1-0-0-63@app", "0-0-0-64@other/app")
    sent = {holder: _sent(maker, queue, holder, name) for holder, name in enumerate(names, 60)}
    maker.still = True
    for holder in (60, 61, 62):
        _decided(maker, queue, holder, sent[holder], commit=holder != 62)
    maker.still = False
    _decided(maker, queue, 63, sent[63])
    _sent(maker, queue, 65, "2-0-0-65@app")


def _loser_left(maker: LedgerMaker, queue: int) -> None:
    """Of a batch before, rolled back later."""
    loser = _sent(maker, queue, 70, "0-0-0-70@loser")
    _decided(maker, queue, 71, _sent(maker, queue, 71, "1-0-0-71@loser"))
    _decided(maker, queue, 70, loser, commit=False)


def _loser_held(maker: LedgerMaker, queue: int) -> None:
    _sent(maker, queue, 72, "3-0-0-72@held")
    _decided(maker, queue, 73, _sent(maker, queue, 73, "3-0-1-73@held"))


def _winners_apart(maker: LedgerMaker, queue: int) -> None:
    """The two branches of a batch are committed at different moments: a crash between them would have left
    half of it."""
    first, second = _sent(maker, queue, 74, "0-0-0-74@apart"), _sent(maker, queue, 75, "0-1-0-75@apart")
    _decided(maker, queue, 74, first)
    _decided(maker, queue, 75, second)


def _passed_over(maker: LedgerMaker, queue: int) -> None:
    """A position is confirmed; what was assigned before it stays."""
    maker.holder(76, H.SPARK_SUBSCRIPTION, name="query")
    first, second = maker.put(queue), maker.put(queue)
    for serial in (first, second):
        _spark_moves(maker, queue, E.ACQUIRE, S.AVAILABLE, S.GET_UNCONFIRMED, O.NONE, serial)
    _spark_moves(maker, queue, E.CONFIRM, S.GET_UNCONFIRMED, S.DELETED, O.CONSUMED, second)
    _spark_moves(maker, queue, E.RELEASE, S.GET_UNCONFIRMED, S.AVAILABLE, O.NONE, first)


def _spark_moves(
    maker: LedgerMaker, queue: int, event: int, before: int, after: int, outcome: int, serial: int
) -> None:
    group = Group(queue, before, after, outcome, 0, 0, 0, [(serial, serial)])
    maker.group(event, [group], holder_kind=H.SPARK_SUBSCRIPTION, holder=76)


def _decided_backwards(maker: LedgerMaker, queue: int) -> None:
    first, second = held(maker, queue, 56, producer=LINK), held(maker, queue, 56, producer=LINK)
    decide(maker, queue, 56, second, first)


def _born_backwards(maker: LedgerMaker, queue: int) -> None:
    first = unborn(maker, queue, LATER_US, producer=LINK)
    second = unborn(maker, queue, LATER_US, producer=LINK)
    born(maker, second, queue)
    born(maker, first, queue)


def _resumed_backwards(maker: LedgerMaker, queue: int) -> None:
    both = [held(maker, queue, holder, producer=LINK) for holder in (57, 58)]
    for holder, serial in zip((57, 58), both, strict=True):
        decide(maker, queue, holder, serial, causes=int(DelayCause.PAUSED))
    for serial in reversed(both):
        born(maker, serial, queue)


def _taken_again(maker: LedgerMaker, queue: int) -> None:
    for name in (b"a", b"b", b"a"):
        maker.put(queue, message_id=name, producer=LINK)


def _arrived_twice(maker: LedgerMaker, queue: int) -> None:
    for _ in range(2):
        maker.put(queue, message_id=b"once", producer=LINK, creation_us=START_US)


FAULTS: Final[dict[str, tuple[Plant, set[str]]]] = {
    "duplicated event": (_duplicated_event, {"broken sequence"}),
    "confirmed twice": (_confirmed_twice, {"event after end", "unbalanced queue"}),
    "missing transition": (_missing_transition, {"broken sequence"}),
    "lost arrival": (_lost_arrival, {"lost arrival", "unbalanced queue"}),
    "second arrival": (_second_arrival, {"second arrival", "unbalanced queue"}),
    "illegal transition": (_illegal_transition, {"illegal transition"}),
    "wrong kind of holder": (_wrong_kind, {"illegal transition"}),
    "another holder": (_another_holder, {"held by another"}),
    "missing child": (_missing_child, {"missing child"}),
    "second child": (_second_child, {"second child"}),
    "child without move": (_child_without_move, {"child without move"}),
    "missing report": (_missing_report, {"missing report"}),
    "stored message lost": (_stored_message_lost, {"stored message lost"}),
    "half committed": (_half_committed, {"half committed"}),
    "two decisions": (_two_decisions, {"two decisions"}),
    "left out of the commit": (_left_out_of_the_commit, {"left out of the decision"}),
    "left out of the rollback": (_left_out_of_the_rollback, {"left out of the decision"}),
    "left out of the batch": (_left_out_of_the_batch, {"left out of the decision"}),
    "used after its decision": (_used_after_its_decision, {"used after its decision"}),
    "loser left": (_loser_left, {"left out of its batch"}),
    "loser held": (_loser_held, {"left out of its batch"}),
    "winners apart": (_winners_apart, {"left out of its batch"}),
    "passed over": (_passed_over, {"passed over"}),
    "decided backwards": (_decided_backwards, {"out of order"}),
    "born backwards": (_born_backwards, {"out of order"}),
    "resumed backwards": (_resumed_backwards, {"out of order"}),
    "taken again": (_taken_again, {"taken again"}),
    "arrived twice": (_arrived_twice, {"arrived twice"}),
}
"""A queue for each fault, and the rules that the audit must find broken there."""


def faulty(folder: Path, **made: object) -> Path:
    """A ledger with every fault."""
    maker = LedgerMaker(folder, **made)  # type: ignore[arg-type]
    maker.producer(LINK, "link")
    for name, (plant, _) in FAULTS.items():
        window = {"duplicate_window": 5} if name == "taken again" else {}
        plant(maker, maker.queue(name, **window))
    return maker.finish()

"""Two queue managers with a little of everything that the report tells, and their tables."""

from pathlib import Path
from uuid import UUID

from postroom.ledger.format.block import Group
from postroom.model.codes import DelayCause
from postroom.spark.pipeline.options import Upkeep
from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.settings import note_ledgers
from tests.ledger.ledger_maker import E, H, LedgerMaker, O, S
from tests.spark.local_pipeline import catch_up, piped

LONDON = UUID("0195f2a0-0000-7000-8000-0000000000a1")
PARIS = UUID("0195f2a0-0000-7000-8000-0000000000b2")
APP, CHANNEL, BATCH = 3, 5, 77
LAZY = Upkeep()


def london(folder: Path) -> tuple[LedgerMaker, list[int]]:
    """Ten orders: six consumed, one after a failure and a wait; one dead; three wait. Two went to PARIS."""
    maker = LedgerMaker(folder, LONDON)
    maker.producer(APP, "orders")
    orders, dead, transmission = maker.queue("orders"), maker.queue("orders.dead"), maker.queue("PARIS")
    serials = [maker.put(orders, message_id=b"order-%d" % number, producer=APP) for number in range(10)]
    for serial in serials[:5]:
        maker.consume(serial, orders)
    slow = serials[5]
    maker.acquire(slow, orders)
    maker.change(
        slow, orders, E.FAIL, S.GET_UNCONFIRMED, S.DELAYED, delivery_delta=1, failure_delta=1,
        causes=DelayCause.REDELIVERY_DELAY, due_us=maker.builder.time_us + 500_000,
    )  # fmt: skip
    maker.builder.set_time(maker.builder.time_us + 500_000)
    maker.change(slow, orders, E.DUE, S.DELAYED, S.AVAILABLE, holder_kind=0, holder=0)
    maker.consume(slow, orders)
    maker.dead_letter(serials[6], orders, dead)
    sent = [maker.put(transmission, message_id=b"parcel-%d" % number, producer=APP) for number in range(2)]
    for serial in sent:
        maker.change(
            serial, transmission, E.ACQUIRE, S.AVAILABLE, S.GET_UNCONFIRMED,
            holder_kind=H.CHANNEL_BATCH, holder=BATCH,
        )  # fmt: skip
    ranges = [(serial, serial) for serial in sent]
    group = Group(transmission, S.GET_UNCONFIRMED, S.DELETED, O.FORWARDED, 0, 0, 0, ranges)
    maker.group(E.FORWARD, [group], decision=True, holder_kind=H.CHANNEL_BATCH, holder=BATCH)
    return maker, sent


def paris(folder: Path, sent: list[int]) -> LedgerMaker:
    """What LONDON sent has come; one of it is delayed."""
    maker = LedgerMaker(folder, PARIS)
    parcels = maker.queue("parcels")
    maker.receiving_channel(CHANNEL, "LONDON.PARIS", LONDON)
    for number, serial in enumerate(sent, 1):
        maker.put(
            parcels,
            producer=CHANNEL,
            parent=(serial, number),
            received=True,
            message_id=b"parcel-%d" % number,
        )
    last = maker.builder.next_position - 1
    maker.change(
        last, parcels, E.DELAY, S.AVAILABLE, S.DELAYED, holder_kind=0, holder=0, causes=DelayCause.PAUSED
    )
    return maker


def made_tables(folder: Path) -> Path:
    """Tables of both, as a pipeline leaves them that keeps up: nothing is settled."""
    maker, sent = london(folder / "london")
    ledgers = [maker.finish(), paris(folder / "paris", sent).finish()]
    tables = folder / "tables"
    pipeline = piped(tables, *ledgers, upkeep=LAZY)
    note_ledgers(Root(str(tables)), pipeline.seen)
    catch_up(pipeline, records=10)
    return tables

"""Transactions and XA branches in any order of requests, and with bytes changed: no defect of ours shows,
nothing is left open, and a neighbour is served on."""

import itertools
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from postroom.amqp.encoding.composite import Performative
from postroom.amqp.encoding.types import UInt
from postroom.amqp.frames.frames import write_frame
from postroom.amqp.frames.outcomes import (
    ACCEPTED,
    RELEASED,
    Declare,
    DeliveryState,
    Discharge,
    Modified,
    TransactionalState,
)
from postroom.amqp.frames.performatives import Detach, End
from postroom.amqp.frames.sasl import ANONYMOUS
from postroom.amqp.frames.termini import Coordinator, Source, Target
from postroom.amqp.frames.transfers import RECEIVER, SENDER, Disposition, Flow, Transfer
from postroom.amqp.message.sections import Message, Properties
from postroom.manager.transactions.xa_branch import branches_of
from postroom.model.xa import BranchState, XaFlag, Xid
from postroom.server.connection.binding import ConnectionBinding
from tests.sampling import examples
from tests.server.neighbour import MESSAGE, NOW_US, Neighbour, attach, settle
from tests.server.peers import SESSION
from tests.server.transaction_peer import BRANCH, global_id, value

QUEUE = "mangled-transactions"
TO, FROM, CONTROL, REQUESTS, ANSWERS = range(5)
FLAGS = [XaFlag.TMSUCCESS, XaFlag.TMFAIL, XaFlag.TMSUSPEND]


class Speech:
    """What a client writes, frame by frame; ``first`` is the number of the next transaction declared."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.data = SESSION
        self.xids = [Xid(9, b"%d" % first, b"1"), Xid(9, b"%d" % first, b"2")]
        self._next_id = 0
        xa: dict[object, object] = {"x-opt-xa": True}
        for each in (
            attach(TO, "to", SENDER, source=Source(), target=Target(address=QUEUE)),
            attach(FROM, "from", RECEIVER, source=Source(address=QUEUE), target=Target(), properties=xa),
            attach(CONTROL, "control", SENDER, source=Source(), target=Coordinator()),
            attach(REQUESTS, "requests", SENDER, source=Source(), target=Target(address="$management")),
            attach(ANSWERS, "answers", RECEIVER, source=Source(address="$management"), target=Target()),
            Flow(1000, 0, 1000, next_incoming_id=0, handle=FROM, delivery_count=0, link_credit=1000),
            Flow(1000, 0, 1000, next_incoming_id=0, handle=ANSWERS, delivery_count=0, link_credit=1000),
        ):
            self.write(each)
        self.opening_bytes = len(self.data)
        """So much is written before the first answer is waited for."""

    def write(self, performative: Performative, payload: bytes = b"") -> None:
        writer = BytesWriter()
        write_frame(writer, 0, performative, payload)
        self.data += writer.getvalue()

    def send(
        self,
        handle: int,
        payload: bytes,
        state: DeliveryState | None = None,
        settled: bool = False,
        more: bool = False,
    ) -> None:
        tag = self._next_id.to_bytes(4, "big")
        self.write(
            Transfer(handle, self._next_id, tag, message_format=0, settled=settled, more=more, state=state),
            payload,
        )
        self._next_id += 1

    def state(self, which: int, outcome: DeliveryState | None = None) -> TransactionalState:
        return TransactionalState((self.first + which).to_bytes(8, "big"), outcome)

    def verb(self, operation: str, xid: Xid, flags: int | None = None) -> None:
        fields: dict[str, object] = {"operation": operation, "type": BRANCH, "xid": str(xid)}
        if flags is not None:
            fields["flags"] = UInt(flags)
        message = Message(properties=Properties(reply_to="$management"), application_properties=fields)
        self.send(REQUESTS, message.encode(), settled=True)


Sentence = Callable[[Speech, int], None]
"""Called with a number that chooses among the transactions, branches, flags or outcomes that there are."""

OUTCOMES: list[DeliveryState] = [ACCEPTED, RELEASED, Modified(True, True)]


def _decide(speech: Speech, number: int) -> None:
    operation = ("PREPARE", "COMMIT", "ROLLBACK", "FORGET")[number % 4]
    speech.verb(operation, speech.xids[number // 4 % 2])


def _in_frames(speech: Speech, number: int) -> None:
    """A message in two frames, mostly of one transaction; with the control link between them, or aborted."""
    speech.send(TO, MESSAGE[:9], speech.state(number % 3), more=True)
    if number % 5 == 0:
        speech.send(CONTROL, value(Discharge(speech.state(number % 3).txn_id, False)))
    elif number % 5 == 1:
        speech.verb("END", speech.xids[number % 2])
    if number % 7 == 0:
        speech.write(Transfer(TO, aborted=True))
    else:
        speech.write(Transfer(TO, state=speech.state(number // 16)), MESSAGE[9:])


SENTENCES: list[Sentence] = [
    lambda s, n: s.send(TO, MESSAGE),
    lambda s, n: s.send(TO, MESSAGE, s.state(n % 3)),
    lambda s, n: s.send(TO, MESSAGE[:-3], s.state(n % 3), settled=True),
    _in_frames,
    lambda s, n: s.send(CONTROL, value(Declare())),
    lambda s, n: s.send(CONTROL, value(Declare(global_id(s.xids[n % 2])))),
    lambda s, n: s.send(CONTROL, value(Declare(global_id(s.xids[n % 2], UInt(XaFlag.TMJOIN))))),
    lambda s, n: s.send(CONTROL, value(Declare(global_id(s.xids[n % 2], UInt(XaFlag.TMRESUME))))),
    lambda s, n: s.send(CONTROL, value(Discharge((s.first + n % 3).to_bytes(8, "big"), n % 3 == 0))),
    lambda s, n: s.write(Disposition(RECEIVER, n % 5, n % 5 + n % 3, n % 2 == 0, OUTCOMES[n % 3])),
    lambda s, n: s.write(Disposition(RECEIVER, n % 5, n % 5, n % 2 == 0, s.state(n % 3, OUTCOMES[n % 3]))),
    lambda s, n: s.write(Disposition(RECEIVER, n % 5, n % 5, n % 2 == 0, None)),
    lambda s, n: s.verb("END", s.xids[n % 2], FLAGS[n // 2 % 3]),
    _decide,
    lambda s, n: s.verb("COMMIT", s.xids[n % 2], XaFlag.TMONEPHASE),
    lambda s, n: s.verb("RECOVER", s.xids[0], XaFlag.TMSTARTRSCAN),
    lambda s, n: s.write(Detach(handle=n % 5, closed=n % 2 == 0)) if n < 12 else None,
    lambda s, n: s.write(End()) if n < 6 else None,
]

speeches = st.lists(st.tuples(st.integers(0, len(SENTENCES) - 1), st.integers(0, 47)), max_size=30)


def spoken(neighbour: Neighbour, sentences: list[tuple[int, int]]) -> Speech:
    speech = Speech(neighbour.broker._transactions + 1)
    for which, number in sentences:
        SENTENCES[which](speech, number)
    return speech


def hear(neighbour: Neighbour, speech: Speech, piece_bytes: int) -> ConnectionBinding:
    """The opening, and when that is answered the rest in pieces; then the connection is lost."""
    broker = neighbour.broker
    binding = broker.connect("speaker", [ANONYMOUS], 0, NOW_US)
    assert binding is not None
    starts = [0, *range(speech.opening_bytes, len(speech.data), piece_bytes), len(speech.data)]
    for start, end in itertools.pairwise(starts):
        binding.receive(speech.data[start:end], 0, NOW_US)
        settle(broker)
        binding.data_to_send()
    binding.lost(NOW_US)
    settle(broker)
    return binding


def check_nothing_is_open(neighbour: Neighbour) -> None:
    """The connection was lost: nobody works on anything, though branches of ended sessions may be there."""
    core = neighbour.broker.manager.core
    assert not core.transactions.local
    for branch in branches_of(core).by_xid.values():
        assert branch.state != BranchState.ACTIVE
        assert not branch.sessions


@given(sentences=speeches, piece_bytes=st.integers(1, 4000))
@settings(max_examples=examples(200))
def test_transactions_in_any_order(
    neighbour: Neighbour,
    sentences: list[tuple[int, int]],
    piece_bytes: int,
) -> None:
    assert not hear(neighbour, spoken(neighbour, sentences), piece_bytes).failed
    check_nothing_is_open(neighbour)
    assert neighbour.is_served()


@given(
    sentences=speeches, changes=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=5)
)
@settings(max_examples=examples(150))
def test_transactions_with_changed_bytes(
    neighbour: Neighbour,
    sentences: list[tuple[int, int]],
    changes: list[tuple[int, int]],
) -> None:
    speech = spoken(neighbour, sentences)
    data = bytearray(speech.data)
    for place, byte in changes:
        data[len(SESSION) + place % (len(data) - len(SESSION))] = byte
    speech.data = bytes(data)
    assert not hear(neighbour, speech, 500).failed
    check_nothing_is_open(neighbour)
    assert neighbour.is_served()

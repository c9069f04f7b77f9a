"""Every cell of the three state tables, driven through a real connection."""

from __future__ import annotations

import pytest

from postroom.amqp import errors
from postroom.amqp.encoding.composite import Performative
from postroom.amqp.engine import states
from postroom.amqp.engine.events import ProtocolFailed, SessionEnded
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.shared_state import Event
from postroom.amqp.frames.performatives import Begin, Close, Detach, End, Open
from postroom.amqp.frames.transfers import Disposition, Flow, Transfer
from tests.amqp.engine.engine_pair import BEGIN, HEADER, OPEN, RawPeer, attach_sender, frame, of

ROWS = [states.UNOPENED, states.OPEN, states.CLOSED, states.DISCARDING]
ROW_NAMES = ["unopened", "open", "closed", "discarding"]
SENT: dict[str, bytes] = {
    "open": OPEN,
    "begin": BEGIN,
    "attach": attach_sender(),
    "flow": frame(Flow(100, 0, 100, next_incoming_id=None, handle=0)),
    "transfer": frame(Transfer(0, 0, b"t"), b"x"),
    "disposition": frame(Disposition(True, 5, 5, True)),
    "detach": frame(Detach(handle=0)),
    "end": frame(End()),
    "close": frame(Close()),
}
CONDITIONS = {
    states.ILLEGAL: errors.ILLEGAL_STATE,
    states.NO_SESSION: errors.ILLEGAL_STATE,
    states.IN_USE: errors.SESSION_HANDLE_IN_USE,
    states.UNATTACHED: errors.SESSION_UNATTACHED_HANDLE,
}


def column(name: str) -> int:
    return states.PERFORMATIVES.index(name)


def connection_in(row: int) -> RawPeer:
    """A session and a link are there where they can be, so that only the connection's state matters."""
    peer = RawPeer()
    if row == states.UNOPENED:
        peer.send(HEADER)
        return peer
    peer.send(HEADER, OPEN, frame_on_one(BEGIN))
    if row == states.CLOSED:
        peer.send(frame(Close()))
    elif row == states.DISCARDING:
        peer.server.close()
    return peer


def frame_on_one(data: bytes) -> bytes:
    """The same frame on channel 1."""
    return data[:7] + b"\x01" + data[8:]


def session_in(row: int) -> RawPeer:
    peer = RawPeer()
    peer.send(HEADER, OPEN)
    if row != states.UNOPENED:
        peer.send(BEGIN)
        peer.send(attach_sender(9, "other"))
        peer.send(frame_on_one(BEGIN))
    if row == states.CLOSED:
        peer.send(frame(End()))
    elif row == states.DISCARDING:
        peer.server.sessions()[0].end()
    return peer


def link_in(row: int) -> RawPeer:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN)
    if row != states.UNOPENED:
        peer.send(attach_sender())
        link = peer.server.sessions()[0].links()[0]
        assert isinstance(link, ReceiverLink)
        link.flow(5)
        if row == states.CLOSED:
            peer.send(frame(Detach(handle=0)))
            link.detach()
        elif row == states.DISCARDING:
            link.detach()
    return peer


def refusals(events: list[Event]) -> list[str]:
    """The conditions with which the engine has ended something."""
    ended = [event.error for event in of(events, SessionEnded) if event.local and event.error is not None]
    return [error.condition for error in [*(event.error for event in of(events, ProtocolFailed)), *ended]]


def check(peer: RawPeer, name: str, cell: int) -> None:
    peer.answers()
    events = peer.send(SENT[name])
    answers: list[Performative] = peer.answers()
    if cell in CONDITIONS:
        assert refusals(events)[0] == CONDITIONS[cell]
        last = answers[-1]
        assert isinstance(last, Close if cell in (states.ILLEGAL, states.NO_SESSION) else End)
        assert last.error is not None
        assert last.error.condition == CONDITIONS[cell]
        return
    assert refusals(events) == []
    if cell == states.IGNORED:
        assert events == []
        assert answers == []


@pytest.mark.parametrize("row", ROWS, ids=ROW_NAMES)
@pytest.mark.parametrize("name", states.PERFORMATIVES)
def test_connection_table(row: int, name: str) -> None:
    cell = states.CONNECTION_TABLE[row][column(name)]
    peer = connection_in(row)
    if cell == states.OPEN and name not in ("open", "begin"):
        # Legal for the connection; whether the session takes it is the next table's matter.
        peer.send(BEGIN)
        if name not in ("attach", "disposition", "end"):
            peer.send(attach_sender())
            link = peer.server.sessions()[1].links()[0]
            assert isinstance(link, ReceiverLink)
            link.flow(5)
    check(peer, name, cell)
    if cell >= 0:
        assert peer.server.remote_state == cell


@pytest.mark.parametrize("row", ROWS, ids=ROW_NAMES)
@pytest.mark.parametrize("name", ["begin", "attach", "flow", "transfer", "disposition", "detach", "end"])
def test_session_table(row: int, name: str) -> None:
    cell = states.SESSION_TABLE[row][column(name)]
    peer = session_in(row)
    if cell == states.OPEN and name in ("flow", "transfer", "detach"):
        peer.send(attach_sender())
        link = peer.server.sessions()[0].links()[-1]
        assert isinstance(link, ReceiverLink)
        link.flow(5)
    check(peer, name, cell)
    if cell == states.CLOSED:
        assert [session.remote_channel for session in peer.server.sessions()] == [1], "only that one is over"
    elif cell == states.OPEN:
        assert peer.server.sessions()[0].remote_state == states.OPEN


@pytest.mark.parametrize("row", ROWS, ids=ROW_NAMES)
@pytest.mark.parametrize("name", ["attach", "flow", "transfer", "detach"])
def test_link_table(row: int, name: str) -> None:
    cell = states.LINK_TABLE[row][column(name)]
    peer = link_in(row)
    links = peer.server.sessions()[0].links()
    check(peer, name, cell)
    if cell == states.CLOSED:
        assert links[0].remote_state == states.CLOSED
    elif cell == states.OPEN:
        assert peer.server.sessions()[0].links()[0].remote_state == states.OPEN


def test_the_tables_name_every_performative_once() -> None:
    assert len(states.PERFORMATIVES) == 9
    for table in (states.CONNECTION_TABLE, states.SESSION_TABLE, states.LINK_TABLE):
        assert [len(row) for row in table] == [9] * 4


def test_an_end_that_crosses_ours_is_no_error() -> None:
    peer = session_in(states.DISCARDING)
    peer.answers()
    [ended] = of(peer.send(frame(End())), SessionEnded)
    assert not ended.local
    assert peer.answers() == []
    assert isinstance(peer.server.peer_open, Open)
    assert (
        of(peer.send(frame(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1))), ProtocolFailed)
        == []
    )

"""Two connections joined in memory, and raw frames for a peer that breaks rules."""

from __future__ import annotations

from typing import TypeVar

from librt.strings import BytesWriter

from postroom.amqp.encoding.composite import Performative
from postroom.amqp.engine.connection import Connection
from postroom.amqp.engine.events import LinkAttached, Opened, SaslInitReceived
from postroom.amqp.engine.link import Link
from postroom.amqp.engine.options import ConnectionOptions
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.session import Session
from postroom.amqp.engine.shared_state import Event
from postroom.amqp.frames.frames import FrameDecoder, write_frame
from postroom.amqp.frames.performatives import Attach, Begin, Open
from postroom.amqp.frames.termini import Source, Target
from postroom.amqp.frames.transfers import Flow, Transfer

E = TypeVar("E", bound=Event)


def of(events: list[Event], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def only(events: list[Event], kind: type[E]) -> E:
    found = of(events, kind)
    assert len(found) == 1, events
    return found[0]


def server_options(**changes: object) -> ConnectionOptions:
    return ConnectionOptions(server=True, container_id="server", **changes)  # type: ignore[arg-type]


def client_options(**changes: object) -> ConnectionOptions:
    options: dict[str, object] = {"sasl_mechanisms": [], "hostname": "host", **changes}
    return ConnectionOptions(server=False, container_id="client", **options)  # type: ignore[arg-type]


class Pair:
    """A client and a server; ``pump`` carries bytes to and fro until both are silent.

    The server side answers SASL, open and attach by itself, unless ``by_hand``.
    """

    def __init__(
        self,
        client: ConnectionOptions | None = None,
        server: ConnectionOptions | None = None,
        *,
        by_hand: bool = False,
        chunk_bytes: int = 0,
    ) -> None:
        self.now_us = 1_000_000
        self.client = Connection(client or client_options(), self.now_us)
        self.server = Connection(server or server_options(), self.now_us)
        self.by_hand = by_hand
        self.chunk_bytes = chunk_bytes
        self.client_events: list[Event] = []
        self.server_events: list[Event] = []

    def pump(self) -> None:
        moved = True
        while moved:
            moved = self._carry(self.client, self.server, self.server_events)
            moved = self._carry(self.server, self.client, self.client_events) or moved

    def _carry(self, source: Connection, sink: Connection, events: list[Event]) -> bool:
        data = source.data_to_send()
        step = self.chunk_bytes or len(data) or 1
        for start in range(0, len(data), step):
            self._took(sink, events, sink.receive_data(data[start : start + step], self.now_us))
        return bool(data)

    def _took(self, sink: Connection, events: list[Event], new: list[Event]) -> None:
        events.extend(new)
        if sink is not self.server or self.by_hand:
            return
        for event in new:
            if isinstance(event, SaslInitReceived):
                self._took(sink, events, sink.sasl_accept())
            elif isinstance(event, Opened):
                sink.open()
            elif isinstance(event, LinkAttached) and event.by_peer:
                event.link.accept_attach(event.attach.source, event.attach.target)

    def take_client_events(self) -> list[Event]:
        taken, self.client_events = self.client_events, []
        return taken

    def take_server_events(self) -> list[Event]:
        taken, self.server_events = self.server_events, []
        return taken

    def open(self) -> Pair:
        self.client.open()
        self.pump()
        return self

    def session(self) -> Session:
        if self.client.peer_open is None:
            self.open()
        session = self.client.begin()
        self.pump()
        return session

    def sending(self, credit: int = 0, **attach: object) -> tuple[SenderLink, ReceiverLink]:
        """The client's sender and the server's receiver, with credit."""
        link = self.session().attach_sender("to-server", Source(), Target(address="q"), **attach)  # type: ignore[arg-type]
        self.pump()
        peer = self.server_link("to-server")
        assert isinstance(peer, ReceiverLink)
        if credit:
            peer.flow(credit)
            self.pump()
        self.forget_events()
        return link, peer

    def receiving(self, credit: int = 0, **attach: object) -> tuple[ReceiverLink, SenderLink]:
        """The client's receiver and the server's sender, with credit."""
        link = self.session().attach_receiver("to-client", Source(address="q"), Target(), **attach)  # type: ignore[arg-type]
        self.pump()
        peer = self.server_link("to-client")
        assert isinstance(peer, SenderLink)
        if credit:
            link.flow(credit)
            self.pump()
        self.forget_events()
        return link, peer

    def server_link(self, name: str) -> Link:
        return next(
            event.link
            for event in self.server_events
            if isinstance(event, LinkAttached) and event.link.name == name
        )

    def forget_events(self) -> None:
        self.client_events.clear()
        self.server_events.clear()


def frame(performative: Performative, payload: bytes = b"", channel: int = 0) -> bytes:
    writer = BytesWriter()
    write_frame(writer, channel, performative, payload)
    return writer.getvalue()


class RawPeer:
    """A peer of a server that sends whatever frames the test says, and reads the answers."""

    def __init__(self, options: ConnectionOptions | None = None) -> None:
        self.now_us = 1_000_000
        self.server = Connection(options or server_options(), self.now_us)
        self.decoder = FrameDecoder(1 << 24)

    def send(self, *frames: bytes) -> list[Event]:
        """The server's events; opens are answered, attaches accepted."""
        events = self.server.receive_data(b"".join(frames), self.now_us)
        for event in list(events):
            if isinstance(event, Opened):
                self.server.open()
            elif isinstance(event, LinkAttached) and event.by_peer:
                event.link.accept_attach(event.attach.source, event.attach.target)
        return events

    def answers(self) -> list[Performative]:
        """What the server has said since the last call, protocol header aside."""
        data = self.server.data_to_send()
        if data.startswith(b"AMQP"):
            data = data[8:]
        self.decoder.feed(data)
        found: list[Performative] = []
        while self.decoder.next():
            if not self.decoder.is_empty:
                found.append(self.decoder.performative())
        return found


HEADER = b"AMQP\x00\x01\x00\x00"
OPEN = frame(Open(container_id="raw"))
BEGIN = frame(Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100))


def attach_sender(handle: int = 0, name: str = "link", **changes: object) -> bytes:
    """An attach of the peer as sender: the server receives."""
    fields: dict[str, object] = {
        "name": name,
        "handle": handle,
        "role": False,
        "source": Source(),
        "target": Target(address="q"),
        "initial_delivery_count": 0,
        **changes,
    }
    return frame(Attach(**fields))  # type: ignore[arg-type]


def attach_receiver(handle: int = 0, name: str = "link", **changes: object) -> bytes:
    """An attach of the peer as receiver: the server sends."""
    fields: dict[str, object] = {
        "name": name,
        "handle": handle,
        "role": True,
        "source": Source(address="q"),
        "target": Target(),
        **changes,
    }
    return frame(Attach(**fields))  # type: ignore[arg-type]


OWN_TAG = b"its id"


def transfer(
    id: int | None = 0, tag: bytes | None = OWN_TAG, payload: bytes = b"x", **changes: object
) -> bytes:
    """A frame of delivery `id`, with a tag of its own; without id and tag it goes on with the one before."""
    if tag is OWN_TAG:
        tag = None if id is None else b"%d" % id
    return frame(Transfer(0, id, tag, **changes), payload)  # type: ignore[arg-type]


def flow(**changes: object) -> bytes:
    return frame(Flow(100, 0, 100, **changes))  # type: ignore[arg-type]

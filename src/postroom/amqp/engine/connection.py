"""One AMQP 1.0 connection without any I/O: bytes and the time go in, events and bytes come out.

Source: AMQP 1.0 part 2, section 2.4. The application (a server or a client) feeds ``receive_data`` and
``on_time``, acts on the events, calls the methods of connection, session and link, and writes what
``data_to_send`` gives it to the socket. Whatever a peer sends, ``receive_data`` raises nothing: a broken
rule ends the link, the session or the connection with the condition that the specification names, and is
reported as an event.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from postroom.amqp.encoding.composite import Composite, Error, Performative
from postroom.amqp.engine.deadlines import Deadlines
from postroom.amqp.engine.events import Closed, Opened, ProtocolFailed
from postroom.amqp.engine.handshake import Handshake, Phase
from postroom.amqp.engine.options import NEVER_US, ConnectionOptions
from postroom.amqp.engine.session import Session
from postroom.amqp.engine.shared_state import Event, Output, SessionViolation, Wire
from postroom.amqp.engine.states import (
    CLOSED,
    CONNECTION_TABLE,
    DISCARDING,
    IGNORED,
    ILLEGAL,
    NO_SESSION,
    OPEN,
    PERFORMATIVES,
    SESSION_TABLE,
    UNOPENED,
)
from postroom.amqp.engine.violations import ConnectionViolation, LinkViolation, UsageError
from postroom.amqp.errors import (
    CONNECTION_FRAMING_ERROR,
    ILLEGAL_STATE,
    INVALID_FIELD,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
    AmqpError,
)
from postroom.amqp.frames.frames import (
    FRAME_TYPE_AMQP,
    MIN_MAX_FRAME_BYTES,
    FrameDecoder,
    write_empty_frame,
    write_frame,
)
from postroom.amqp.frames.performatives import Attach, Begin, Close, Detach, End, Open
from postroom.amqp.frames.sasl import SASL_AUTH
from postroom.amqp.frames.transfers import Disposition, Flow, Transfer

_COLUMNS: Final[dict[type[Composite], int]] = {
    performative: column
    for column, performative in enumerate(
        (Open, Begin, Attach, Flow, Transfer, Disposition, Detach, End, Close)
    )
}
"""Of the tables; in their order."""


@final
class Connection:
    """One end of a connection; ``context`` is the application's own. ``now_us`` is any clock that doesn't
    go back.
    """

    def __init__(self, options: ConnectionOptions, now_us: i64) -> None:
        self.options = options
        self.wire = Wire(options)
        self.peer_open: Open | None = None
        self.local_state: i64 = UNOPENED
        self.remote_state: i64 = UNOPENED
        self.context: object = None
        self._decoder = FrameDecoder(options.max_frame_size_bytes)
        self._head = BytesWriter()
        """Headers and SASL frames; they and our open leave before anything else may."""
        self._open_frame = b""
        self._head_waiting = True
        self._may_send_frames = False
        self._handshake = Handshake(options, self._decoder, self._head, self.wire.events)
        self._failed = False
        self._local_sessions: list[Session | None] = []
        """By our channel."""
        self._remote_sessions: list[Session | None] = []
        """By the peer's channel."""
        self._channel_limit: i64 = options.max_sessions
        self._deadlines = Deadlines(options, now_us)

    # --- bytes and time

    def receive_data(self, data: bytes, now_us: i64, start: i64 = 0, end: i64 = -1) -> list[Event]:
        """Take bytes from the peer, in chunks of any size, and say what they mean: those of ``data`` from
        ``start`` up to, not including, ``end`` (−1: all). Never raises for what the peer sent.
        """
        self._deadlines.received(now_us)
        if not self.finished:
            self._decoder.feed(data, start, end)
            if self._handshake.phase == Phase.VERDICT:
                self._check_pipelined()
            else:
                self._process()
        return self._take_events()

    def _check_pipelined(self) -> None:
        """Nothing is read until the application has decided about the client, so what waits is bounded."""
        limit = self.options.max_pipelined_bytes
        if self._decoder.buffered_bytes() > limit:
            self._fail(Error(RESOURCE_LIMIT_EXCEEDED, f"more than {limit} bytes came behind the SASL init"))

    def data_to_send(self) -> bytes:
        """Everything that may be sent now, b"" if nothing. It counts as sent.

        Where the options bound what is written at once, there is more after ``write_on``.
        """
        return b"".join(self.parts_to_send())

    def parts_to_send(self) -> list[Output]:
        """The same in parts, of which the payload of large messages is no copy; none if there is nothing."""
        if self._head_waiting:
            parts = self._take_head()
        elif self._may_send_frames:
            parts = self.wire.take()
        else:
            return []
        if parts:
            self._deadlines.last_sent_us = self._deadlines.now_us
        return parts

    @property
    def holds_back(self) -> bool:
        """Payload waits for ``write_on``."""
        return self.wire.holds_back

    def write_on(self) -> list[Event]:
        """What was written has been taken: write more of what was held back."""
        self.wire.holds_back = False
        for session in self._local_sessions:
            if session is not None and session.backlog.pieces:
                session.flush_backlog()
        return self._take_events()

    def _take_head(self) -> list[Output]:
        """Headers and SASL frames, then our open, then the rest, each only when what comes before it is
        through.
        """
        data = self._head.getvalue()
        self._head.truncate(0)
        if self._handshake.phase == Phase.DONE:
            data += self._open_frame
            self._open_frame = b""
            self._head_waiting = False
            self._may_send_frames = self.local_state != UNOPENED
            if self._may_send_frames:
                return [data, *self.wire.take()]
        return [data] if data else []

    @property
    def finished(self) -> bool:
        """Nothing more will come of this connection: send what is left, close the socket."""
        return self._failed or (self.local_state == CLOSED and self.remote_state == CLOSED)

    def connection_lost(self) -> list[Event]:
        """The socket is gone: every link is reported detached (not closed), every session ended."""
        self._failed = True
        self._end_sessions(None)
        return self._take_events()

    def next_deadline_us(self) -> int:
        """When to call ``on_time`` at the latest; NEVER_US when time changes nothing. Look again after
        every receive and send.
        """
        return NEVER_US if self.finished else self._deadlines.next_us()

    def on_time(self, now_us: i64) -> list[Event]:
        """Let time pass: a heartbeat is written when one is due, a silent peer is given up."""
        deadlines = self._deadlines
        deadlines.now_us = now_us
        if self.finished:
            return self._take_events()
        if deadlines.open_is_overdue():
            self._fail(
                Error(RESOURCE_LIMIT_EXCEEDED, f"no open within {self.options.handshake_timeout_ms} ms")
            )
        elif deadlines.peer_is_silent():
            self._fail(Error(RESOURCE_LIMIT_EXCEEDED, f"nothing came for {self.options.idle_timeout_ms} ms"))
        elif deadlines.heartbeat_is_due():
            self._heartbeat(now_us)
        return self._take_events()

    def heard(self, now_us: i64) -> None:
        """The peer isn't silent: what it has sent, if anything, has not been read on purpose."""
        self._deadlines.received(now_us)

    def _heartbeat(self, now_us: i64) -> None:
        """An empty frame is due, unless something waits to be sent, or nothing may be (after close)."""
        if self.local_state == OPEN and self.wire.is_empty():
            write_empty_frame(self.wire.writer, 0)
        self._deadlines.last_sent_us = now_us

    def _take_events(self) -> list[Event]:
        events = self.wire.events
        taken = events[:]
        events.clear()
        return taken

    # --- SASL, the server's side

    def sasl_challenge(self, challenge: bytes) -> list[Event]:
        """Ask the client of SaslInitReceived for another response. Returns what has come, as
        ``receive_data`` does.
        """
        self._check_verdict()
        self._handshake.challenge(challenge)
        self._process()
        return self._take_events()

    def sasl_accept(self, data: bytes | None = None) -> list[Event]:
        """Let the client of SaslInitReceived in; ``data`` is for its mechanism. Returns what its frames
        behind it mean, as ``receive_data`` does.
        """
        self._check_verdict()
        self._handshake.accept(data)
        self._process()
        return self._take_events()

    def sasl_reject(self, code: int = SASL_AUTH) -> list[Event]:
        """Send the client away (``code``: part 5, section 5.3.3.6); then the connection is finished."""
        self._check_verdict()
        self._handshake.reject(code)
        self._failed = True
        return self._take_events()

    def _check_verdict(self) -> None:
        if self._handshake.phase != Phase.VERDICT:
            raise UsageError("no client waits for a SASL verdict on this connection")

    # --- open and close

    def open(
        self,
        *,
        offered_capabilities: list[str] | None = None,
        desired_capabilities: list[str] | None = None,
        properties: dict[object, object] | None = None,
    ) -> None:
        """Send our open; a client may do so at once, before the handshake is through.

        Nothing happens when the connection has gone meanwhile. Raises UsageError when it has been sent.
        """
        if self._failed or self.local_state == CLOSED:
            return
        if self.local_state != UNOPENED:
            raise UsageError("the connection has been opened already")
        options = self.options
        open = Open(
            container_id=options.container_id,
            hostname=options.hostname,
            max_frame_size=options.max_frame_size_bytes,
            channel_max=options.channel_max,
            idle_timeout=options.idle_timeout_ms // 2 if options.idle_timeout_ms else None,
            offered_capabilities=offered_capabilities or [],
            desired_capabilities=desired_capabilities or [],
            properties=properties,
        )
        writer = BytesWriter()
        write_frame(writer, 0, open)
        self._open_frame = writer.getvalue()
        self._head_waiting = True
        self.local_state = OPEN

    def close(self, error: Error | None = None) -> None:
        """Send our close (after our open, if need be); the peer's comes as the event Closed. No-op when it
        has been sent.
        """
        if self.local_state == CLOSED or self._failed:
            return
        if self._handshake.phase != Phase.DONE:
            self._failed = True
            return
        if self.local_state == UNOPENED:
            self.wire.take()
            self.open()
        self.local_state = CLOSED
        self.wire.send_last(0, Close(error=error))

    def give_up_sessions(self) -> list[Event]:
        """After `close`: don't wait for the peer's to report every link detached (not closed), every session
        ended.
        """
        self._end_sessions(None)
        return self._take_events()

    def _fail(self, error: Error) -> None:
        """The peer broke a rule that costs it the connection."""
        if self._failed:
            return
        self._end_sessions(error)
        self.close(error)
        self._failed = True
        self.wire.events.append(ProtocolFailed(error))

    def _end_sessions(self, error: Error | None) -> None:
        for session in self._local_sessions:
            if session is not None:
                session.report_ended(error, True)

    # --- sessions

    def begin(self, properties: dict[object, object] | None = None) -> Session:
        """Begin a session; the event SessionBegun brings the peer's answer, links may be attached before.

        Raises UsageError when the connection isn't open on this side, or no channel is free.
        """
        if self.local_state != OPEN:
            raise UsageError("the connection is not open")
        session = self._new_session()
        if session is None:
            raise UsageError(
                f"{self._channel_limit} sessions are in use; channel-max allows no more",
                RESOURCE_LIMIT_EXCEEDED,
            )
        session.send_begin(None, properties)
        return session

    def sessions(self) -> list[Session]:
        """The sessions that haven't ended on both sides."""
        return [session for session in self._local_sessions if session is not None]

    def _new_session(self) -> Session | None:
        """A session on the lowest free channel of ours, None when there is none."""
        channel: i64 = 0
        while channel < len(self._local_sessions) and self._local_sessions[channel] is not None:
            channel += 1
        if channel >= self._channel_limit:
            return None
        if channel == len(self._local_sessions):
            self._local_sessions.append(None)
        session = Session(self.wire, channel)
        self._local_sessions[channel] = session
        return session

    # --- frames in

    def _process(self) -> None:
        """Read until bytes run out; a broken rule is answered where it belongs, and reading goes on if it
        can.
        """
        reading = True
        while reading and not self.finished:
            try:
                if self._handshake.phase != Phase.DONE:
                    reading = self._handshake.step()
                    self._head_waiting = True
                    self._failed = self._failed or self._handshake.phase == Phase.REFUSED
                else:
                    self._read_frames()
                    reading = False
            except LinkViolation as on_link:
                on_link.link.fail(Error(on_link.condition, on_link.description))
            except SessionViolation as on_session:
                on_session.session.fail(Error(on_session.condition, on_session.description))
            except AmqpError as error:
                self._fail(Error(error.condition, error.description))
        for session in self.wire.shrunk:
            session.renew_window()
        self.wire.shrunk.clear()

    def _read_frames(self) -> None:
        decoder = self._decoder
        while self.remote_state != CLOSED and decoder.next():
            if decoder.frame_type != FRAME_TYPE_AMQP:
                raise ConnectionViolation(CONNECTION_FRAMING_ERROR, "a SASL frame came after the SASL layer")
            if decoder.is_empty:
                continue
            performative = decoder.performative()
            channel = decoder.channel
            if isinstance(performative, Transfer):
                session = self._remote_session(channel)
                if (
                    session is not None
                    and session.local_state == OPEN
                    and session.remote_state == OPEN
                    and self.remote_state == OPEN
                    and self.local_state != CLOSED
                ):
                    session.on_transfer(performative, decoder.payload())
                    continue
            self._dispatch(channel, performative)

    def _remote_session(self, channel: i64) -> Session | None:
        return self._remote_sessions[channel] if channel < len(self._remote_sessions) else None

    def _dispatch(self, channel: i64, performative: Performative) -> None:
        """Look the frame up in the connection's table, and act on it or pass it on to its session."""
        column: i64 = _COLUMNS[type(performative)]
        row: i64 = self.remote_state
        if self.local_state == CLOSED and row != CLOSED:
            row = DISCARDING
        verdict: i64 = CONNECTION_TABLE[row][column]
        if verdict == IGNORED:
            return
        if verdict == ILLEGAL:
            state = "before open" if row == UNOPENED else "on an open connection"
            raise ConnectionViolation(ILLEGAL_STATE, f"{PERFORMATIVES[column]} came {state}")
        if isinstance(performative, Open):
            if channel != 0:
                raise ConnectionViolation(
                    NOT_ALLOWED, f"open came on channel {channel}; it is sent on channel 0"
                )
            self._on_open(performative)
        elif isinstance(performative, Close):
            self._on_close(performative)
        else:
            self._to_session(channel, column, performative)

    def _on_open(self, open: Open) -> None:
        self.remote_state = OPEN
        self.peer_open = open
        if open.max_frame_size < MIN_MAX_FRAME_BYTES:
            raise ConnectionViolation(
                INVALID_FIELD,
                f"open with max-frame-size {open.max_frame_size}; at least {MIN_MAX_FRAME_BYTES} is due",
            )
        self.wire.set_peer_max_frame(min(open.max_frame_size, self.options.max_frame_size_bytes))
        self._channel_limit = min(self.options.max_sessions, open.channel_max + 1)
        wanted_ms = open.idle_timeout or 0
        if 0 < wanted_ms < self.options.min_peer_idle_timeout_ms:
            raise ConnectionViolation(
                NOT_ALLOWED,
                f"open with idle-time-out {wanted_ms} ms; the least that is served here is"
                f" {self.options.min_peer_idle_timeout_ms} ms",
            )
        self._deadlines.peer_opened(wanted_ms)
        self.wire.events.append(Opened(open))

    def _on_close(self, close: Close) -> None:
        self.remote_state = CLOSED
        self._end_sessions(close.error)
        self.close()
        self.wire.events.append(Closed(close.error))

    def _to_session(self, channel: i64, column: i64, performative: Performative) -> None:
        """Look the frame up in the session's table, and act on it."""
        session = self._remote_session(channel)
        row: i64 = UNOPENED if session is None else session.table_row()
        verdict: i64 = SESSION_TABLE[row][column]
        if verdict == NO_SESSION:
            raise ConnectionViolation(
                ILLEGAL_STATE, f"{PERFORMATIVES[column]} on channel {channel}, where no session has begun"
            )
        if verdict == ILLEGAL:
            raise ConnectionViolation(
                ILLEGAL_STATE, f"{PERFORMATIVES[column]} on channel {channel}, where a session is in use"
            )
        if isinstance(performative, Begin):
            self._on_begin(channel, performative)
        elif session is None:
            raise AssertionError("the table lets nothing but begin through without a session")
        elif isinstance(performative, End):
            session.on_end(performative)
            self._remote_sessions[channel] = None
            self._local_sessions[session.channel] = None
        elif verdict != IGNORED:
            session.on_performative(performative)

    def _on_begin(self, channel: i64, begin: Begin) -> None:
        if channel >= self.options.max_sessions:
            raise ConnectionViolation(
                CONNECTION_FRAMING_ERROR,
                f"begin on channel {channel}; channel-max is {self.options.channel_max}",
            )
        session = self._begun_session(begin)
        while len(self._remote_sessions) <= channel:
            self._remote_sessions.append(None)
        self._remote_sessions[channel] = session
        session.on_begin(begin, channel)

    def _begun_session(self, begin: Begin) -> Session:
        """The session of ours that the peer's begin answers, or a new one."""
        answered = begin.remote_channel
        if answered is None:
            session = self._new_session()
            if session is None:
                raise ConnectionViolation(
                    RESOURCE_LIMIT_EXCEEDED, f"no channel is left to answer; {self._channel_limit} are in use"
                )
            return session
        waiting = self._local_sessions[answered] if answered < len(self._local_sessions) else None
        if waiting is None or waiting.remote_state != UNOPENED:
            raise ConnectionViolation(
                INVALID_FIELD, f"begin answers channel {answered}, on which no begin of ours waits"
            )
        return waiting

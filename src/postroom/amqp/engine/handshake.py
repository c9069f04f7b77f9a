"""What comes before the first frame: protocol headers and the SASL layer (part 2, section 2.2; part 5,
section 5.3).
"""

from __future__ import annotations

from enum import IntEnum
from typing import final

from librt.strings import BytesWriter
from mypy_extensions import i64

from postroom.amqp.engine.events import SaslDone, SaslInitReceived, SaslResponseReceived
from postroom.amqp.engine.options import MAX_SASL_FRAME_BYTES, ConnectionOptions, SaslClient
from postroom.amqp.engine.shared_state import Event
from postroom.amqp.engine.violations import ConnectionViolation
from postroom.amqp.errors import (
    CONNECTION_FRAMING_ERROR,
    ILLEGAL_STATE,
    UNAUTHORIZED_ACCESS,
    DecodeError,
    ProtocolHeaderError,
)
from postroom.amqp.frames.frames import (
    AMQP_HEADER,
    FRAME_TYPE_SASL,
    PROTOCOL_AMQP,
    PROTOCOL_SASL,
    SASL_HEADER,
    FrameDecoder,
    write_sasl_frame,
)
from postroom.amqp.frames.sasl import (
    ANONYMOUS,
    EXTERNAL,
    PLAIN,
    SASL_AUTH,
    SASL_OK,
    SaslChallenge,
    SaslFrame,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    parse_anonymous,
    parse_plain,
    plain_response,
)


class Phase(IntEnum):
    """How far the handshake is: what comes next from the peer."""

    FIRST_HEADER = 0
    MECHANISMS = 1
    INIT = 2
    RESPONSE = 3
    VERDICT = 4
    """Nothing comes: the application decides about the client."""
    OUTCOME = 5
    AMQP_HEADER = 6
    DONE = 7
    REFUSED = 8
    """It's over; what is written is to be sent, then the socket closed."""


@final
class Handshake:
    """Reads from ``decoder``, writes to ``out``, adds to ``events``, until ``phase`` is DONE or REFUSED."""

    def __init__(
        self, options: ConnectionOptions, decoder: FrameDecoder, out: BytesWriter, events: list[Event]
    ) -> None:
        self.options = options
        self.decoder = decoder
        self.out = out
        self.events = events
        self.phase = Phase.FIRST_HEADER
        self.mechanism = ""
        self._hostname: str | None = None
        self._challenged = False
        """Server: whether the application has asked for more than the initial response."""
        if not options.server:
            self.out.write(SASL_HEADER if options.sasl_mechanisms else AMQP_HEADER)

    def step(self) -> bool:
        """Take one header or frame of the peer. False when none is there, or none is wanted.

        Raises AmqpError when it is wrong; what is to be said to that has been written then.
        """
        if self.phase in (Phase.FIRST_HEADER, Phase.AMQP_HEADER):
            return self._read_header()
        if self.phase in (Phase.VERDICT, Phase.DONE, Phase.REFUSED):
            return False
        if not self.decoder.next():
            return False
        if self.decoder.frame_type != FRAME_TYPE_SASL:
            raise ConnectionViolation(
                CONNECTION_FRAMING_ERROR, "an AMQP frame came before the SASL layer was through"
            )
        self._on_frame(self.decoder.sasl_body())
        return True

    # --- protocol headers

    def _read_header(self) -> bool:
        try:
            protocol = self.decoder.read_protocol_header()
        except ProtocolHeaderError:
            self._answer_wrong_header()
            raise
        if protocol < 0:
            return False
        if self.options.server:
            self._on_client_header(protocol)
        else:
            self._on_server_header(protocol)
        return True

    def _answer_wrong_header(self) -> None:
        """A server names the protocol that it speaks; a client has done so already."""
        if self.options.server:
            self.out.write(SASL_HEADER if self.options.sasl_required else AMQP_HEADER)

    def _on_client_header(self, protocol: i64) -> None:
        first = self.phase == Phase.FIRST_HEADER
        if protocol == PROTOCOL_AMQP and not (first and self.options.sasl_required):
            self.out.write(AMQP_HEADER)
            self._done()
        elif protocol == PROTOCOL_SASL and first and self.options.sasl_mechanisms:
            self.out.write(SASL_HEADER)
            write_sasl_frame(self.out, SaslMechanisms(self.options.sasl_mechanisms))
            self._expect_sasl(Phase.INIT)
        else:
            self._answer_wrong_header()
            raise ConnectionViolation(
                CONNECTION_FRAMING_ERROR,
                f"protocol {protocol} is not spoken here at this point (0: AMQP, 2: TLS, 3: SASL)",
            )

    def _on_server_header(self, protocol: i64) -> None:
        sasl = self.phase == Phase.FIRST_HEADER and bool(self.options.sasl_mechanisms)
        if protocol != (PROTOCOL_SASL if sasl else PROTOCOL_AMQP):
            raise ConnectionViolation(
                CONNECTION_FRAMING_ERROR,
                f"the server asks for protocol {protocol} (0: AMQP, 2: TLS, 3: SASL);"
                f" here SASL is {'on' if sasl else 'off'}",
            )
        if sasl:
            self._expect_sasl(Phase.MECHANISMS)
        else:
            self._done()

    def _expect_sasl(self, phase: Phase) -> None:
        self.decoder.max_frame_bytes = MAX_SASL_FRAME_BYTES
        self.phase = phase

    def _done(self) -> None:
        self.decoder.max_frame_bytes = self.options.max_frame_size_bytes
        self.phase = Phase.DONE

    # --- SASL frames

    def _on_frame(self, frame: SaslFrame) -> None:
        phase = self.phase
        if phase == Phase.INIT and isinstance(frame, SaslInit):
            self._on_init(frame)
        elif phase == Phase.RESPONSE and isinstance(frame, SaslResponse):
            self._on_response(frame.response)
        elif phase == Phase.MECHANISMS and isinstance(frame, SaslMechanisms):
            self._on_mechanisms(frame)
        elif phase == Phase.OUTCOME and isinstance(frame, SaslChallenge):
            write_sasl_frame(self.out, SaslResponse(self._client().respond(frame.challenge)))
        elif phase == Phase.OUTCOME and isinstance(frame, SaslOutcome):
            self._on_outcome(frame)
        else:
            raise ConnectionViolation(
                ILLEGAL_STATE, f"{type(frame).__name__} came where {phase.name.lower()} was due"
            )

    # --- the server's side

    def _on_init(self, init: SaslInit) -> None:
        self.mechanism = init.mechanism
        self._hostname = init.hostname
        if init.mechanism not in self.options.sasl_mechanisms:
            self._refuse(f"SASL mechanism {init.mechanism!r} is not offered")
        elif init.initial_response is None and init.mechanism != ANONYMOUS:
            write_sasl_frame(self.out, SaslChallenge(b""))
            self.phase = Phase.RESPONSE
        else:
            self._hand_to_application(init.initial_response or b"")

    def _on_response(self, response: bytes) -> None:
        if self._challenged:
            self.phase = Phase.VERDICT
            self.events.append(SaslResponseReceived(response))
        else:
            self._hand_to_application(response)

    def _hand_to_application(self, response: bytes) -> None:
        """Hand what the client says of itself to the application; a malformed response is refused without
        asking.
        """
        try:
            if self.mechanism == PLAIN:
                plain = parse_plain(response)
                event = SaslInitReceived(
                    self.mechanism, self._hostname, plain.authzid, plain.authcid, plain.password, ""
                )
            elif self.mechanism != ANONYMOUS:
                event = SaslInitReceived(self.mechanism, self._hostname, "", "", "", "", response)
            else:
                trace = parse_anonymous(response)
                event = SaslInitReceived(self.mechanism, self._hostname, "", "", "", trace)
        except DecodeError as error:
            self._refuse(error.description)
        else:
            self.phase = Phase.VERDICT
            self.events.append(event)

    def challenge(self, challenge: bytes) -> None:
        """The application wants another response of the client."""
        write_sasl_frame(self.out, SaslChallenge(challenge))
        self._challenged = True
        self.phase = Phase.RESPONSE

    def accept(self, data: bytes | None) -> None:
        """The application lets the client in."""
        write_sasl_frame(self.out, SaslOutcome(SASL_OK, data))
        self.phase = Phase.AMQP_HEADER
        self.events.append(SaslDone(True, SASL_OK, self.mechanism))

    def reject(self, code: int) -> None:
        """The application (or this layer, for it) sends the client away."""
        write_sasl_frame(self.out, SaslOutcome(code))
        self.phase = Phase.REFUSED

    def _refuse(self, why: str) -> None:
        self.reject(SASL_AUTH)
        raise ConnectionViolation(UNAUTHORIZED_ACCESS, why)

    # --- the client's side

    def _on_mechanisms(self, mechanisms: SaslMechanisms) -> None:
        offered = mechanisms.sasl_server_mechanisms
        wanted = [each for each in self.options.sasl_mechanisms if each in offered]
        if not wanted:
            raise ConnectionViolation(
                UNAUTHORIZED_ACCESS,
                f"the server offers SASL {', '.join(offered)}; allowed here: "
                f"{', '.join(self.options.sasl_mechanisms)}",
            )
        self.mechanism = wanted[0]
        write_sasl_frame(self.out, SaslInit(self.mechanism, self._initial_response(), self.options.hostname))
        self.phase = Phase.OUTCOME

    def _initial_response(self) -> bytes:
        if self.mechanism == PLAIN:
            return plain_response(self.options.username, self.options.password)
        if self.mechanism == ANONYMOUS:
            return self.options.container_id.encode()
        if self.mechanism == EXTERNAL:
            return b""
        return self._client().begin(self.mechanism)

    def _client(self) -> SaslClient:
        client = self.options.sasl_client
        if client is None:
            raise ConnectionViolation(
                ILLEGAL_STATE, f"the server asks for more, and SASL {self.mechanism} has no more to say"
            )
        return client

    def _on_outcome(self, outcome: SaslOutcome) -> None:
        if outcome.code == SASL_OK and self.options.sasl_client is not None:
            self.options.sasl_client.complete(outcome.additional_data)
        self.events.append(SaslDone(outcome.code == SASL_OK, outcome.code, self.mechanism))
        if outcome.code == SASL_OK:
            self.out.write(AMQP_HEADER)
            self.phase = Phase.AMQP_HEADER
        else:
            self.phase = Phase.REFUSED

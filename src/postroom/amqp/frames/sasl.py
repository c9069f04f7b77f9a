"""The SASL layer: its five frame bodies (part 5, section 5.3.3) and the mechanisms PLAIN and ANONYMOUS."""

from dataclasses import dataclass, field
from typing import Final, final

from librt.strings import BytesWriter

from postroom.amqp.encoding import descriptors as d
from postroom.amqp.encoding.composite import Composite
from postroom.amqp.encoding.field_reader import Fields, read_descriptor
from postroom.amqp.encoding.field_writer import FieldWriter
from postroom.amqp.encoding.reader import Reader
from postroom.amqp.errors import DecodeError

PLAIN: Final = "PLAIN"
ANONYMOUS: Final = "ANONYMOUS"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
"""Both ends prove that they know the password, and neither sends it (RFC 5802, RFC 7677)."""
PLUS: Final = "-PLUS"
SCRAM_SHA_256_PLUS: Final = SCRAM_SHA_256 + PLUS
SCRAM_SHA_512_PLUS: Final = SCRAM_SHA_512 + PLUS
"""The same, and both prove that they are the two ends of one TLS connection (channel binding)."""
TLS_SERVER_END_POINT: Final = "tls-server-end-point"
"""What is bound: a hash of the server's certificate (RFC 5929, section 4)."""
OAUTHBEARER: Final = "OAUTHBEARER"
XOAUTH2: Final = "XOAUTH2"
TOKEN_MECHANISMS: Final = (OAUTHBEARER, XOAUTH2)
"""The client sends a token of an authorization server (RFC 7628; XOAUTH2 is what was there before it)."""
EXTERNAL: Final = "EXTERNAL"
"""The certificate that TLS has shown says who it is (RFC 4422, appendix A)."""

# sasl-code (section 5.3.3.6).
SASL_OK: Final = 0
SASL_AUTH: Final = 1
"""The credentials are wrong, or the mechanism isn't offered."""
SASL_SYS: Final = 2
SASL_SYS_PERM: Final = 3
SASL_SYS_TEMP: Final = 4

MAX_SASL_FRAME_BYTES: Final = 512
"""No SASL frame is longer (section 5.3.1: MIN-MAX-FRAME-SIZE)."""


def binds_channel(mechanism: str) -> bool:
    """Whether it is one of those that can be used over TLS alone, and by its two ends alone."""
    return mechanism.endswith(PLUS)


def without_binding(mechanism: str) -> str:
    """The mechanism that does the same without channel binding; of others it is the mechanism itself."""
    return mechanism.removesuffix(PLUS)


class SaslFrame(Composite):
    """The body of a SASL frame."""


@final
@dataclass
class SaslMechanisms(SaslFrame):
    """What the server offers, best first (section 5.3.3.1)."""

    sasl_server_mechanisms: list[str] = field(default_factory=list)

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.symbols(self.sasl_server_mechanisms)
        f.finish(w, d.SASL_MECHANISMS)


@final
@dataclass
class SaslInit(SaslFrame):
    """What the client chooses (section 5.3.3.2)."""

    mechanism: str
    initial_response: bytes | None = None
    hostname: str | None = None

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.symbol(self.mechanism)
        f.binary(self.initial_response)
        f.string(self.hostname)
        f.finish(w, d.SASL_INIT)


@final
@dataclass
class SaslChallenge(SaslFrame):
    """Section 5.3.3.3."""

    challenge: bytes

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.binary(self.challenge)
        f.finish(w, d.SASL_CHALLENGE)


@final
@dataclass
class SaslResponse(SaslFrame):
    """Section 5.3.3.4."""

    response: bytes

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.binary(self.response)
        f.finish(w, d.SASL_RESPONSE)


@final
@dataclass
class SaslOutcome(SaslFrame):
    """How it ended: one of the SASL_ codes (section 5.3.3.5)."""

    code: int
    additional_data: bytes | None = None

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.ubyte(self.code)
        f.binary(self.additional_data)
        f.finish(w, d.SASL_OUTCOME)


def read_sasl(r: Reader) -> SaslFrame:
    """Reads the body of one SASL frame; DecodeError for anything else."""
    code = read_descriptor(r)
    if code == d.SASL_INIT:
        return _read_init(r)
    if code == d.SASL_MECHANISMS:
        return _read_mechanisms(r)
    if code == d.SASL_OUTCOME:
        return _read_outcome(r)
    if code == d.SASL_CHALLENGE:
        f = Fields(r, "sasl-challenge")
        challenge = SaslChallenge(f.binary("challenge"))
        f.close()
        return challenge
    if code == d.SASL_RESPONSE:
        f = Fields(r, "sasl-response")
        response = SaslResponse(f.binary("response"))
        f.close()
        return response
    raise r.fail(f"descriptor 0x{int(code):x} is not that of a SASL frame")


def _read_init(r: Reader) -> SaslInit:
    f = Fields(r, "sasl-init")
    init = SaslInit(
        f.symbol("mechanism"), f.optional_binary("initial-response"), f.optional_string("hostname")
    )
    f.close()
    return init


def _read_mechanisms(r: Reader) -> SaslMechanisms:
    f = Fields(r, "sasl-mechanisms")
    mechanisms = f.symbols("sasl-server-mechanisms")
    if not mechanisms:
        raise f.missing("sasl-server-mechanisms")
    f.close()
    return SaslMechanisms(mechanisms)


def _read_outcome(r: Reader) -> SaslOutcome:
    f = Fields(r, "sasl-outcome")
    outcome = SaslOutcome(f.ubyte("code", SASL_SYS_TEMP), f.optional_binary("additional-data"))
    f.close()
    return outcome


@final
@dataclass
class PlainCredentials:
    """What a PLAIN initial response says (RFC 4616). An empty ``authzid`` means: act as ``authcid``."""

    authzid: str
    authcid: str
    password: str = field(repr=False)


def parse_plain(response: bytes) -> PlainCredentials:
    """The credentials in a PLAIN initial response: ``[authzid] NUL authcid NUL password``, in UTF-8.

    DecodeError for anything else; its text never quotes the response, which holds a password.
    """
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise DecodeError(f"a PLAIN response has 2 NUL bytes, not {len(parts) - 1}")
    try:
        authzid, authcid, password = [part.decode("utf-8") for part in parts]
    except UnicodeDecodeError:
        raise DecodeError("a PLAIN response is not UTF-8") from None
    if not authcid or not password:
        raise DecodeError("a PLAIN response without a user name or without a password")
    return PlainCredentials(authzid, authcid, password)


def plain_response(user: str, password: str, authzid: str = "") -> bytes:
    """The initial response of a client that authenticates with PLAIN."""
    return f"{authzid}\0{user}\0{password}".encode()


def parse_anonymous(response: bytes | None) -> str:
    """The trace information of an ANONYMOUS response (RFC 4505); DecodeError if it is not UTF-8."""
    try:
        return (response or b"").decode("utf-8")
    except UnicodeDecodeError:
        raise DecodeError("an ANONYMOUS response is not UTF-8") from None

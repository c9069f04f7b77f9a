"""A queue manager of several members."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from postroom.replication.options import LEAST_REPLICAS, Engine, engine_of
from postroom.server.configuration.values import PlacedError, Positive

MemberName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
Url = Annotated[str, Meta(min_length=1, max_length=255)]


def _is_http(url: str) -> bool:
    try:
        split = urlsplit(url)
        return split.scheme in ("http", "https") and bool(split.hostname) and split.port != 0
    except ValueError:  # of a port that is no number
        return False


class ReplicationConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """This broker is one member of a queue manager of several: its ledger is in a replicated log, too, and
    when the active member is gone another goes on."""

    servers: Annotated[list[Url], Meta(min_length=1, max_length=32)]
    """Of NATS, such as `nats://10.0.0.1:4222` or `tls://nats.example:4222`, or of Apache Kafka, such as
    `kafka://10.0.0.1:9092` or `kafka+tls://kafka.example:9093`; one that answers is enough."""
    member: MemberName
    """This member's name; no two have the same."""
    urls: list[Url] = []
    """Where clients reach this member, such as `amqps://a.example:5671`, as `postroom member list` shows it;
    an `https` or `http` one is its console, to which followers lead; empty: what it listens on."""
    redirect: bool = False
    """Whether it listens while it follows, too, and sends clients on to the active member
    (`amqp:connection:redirect`): Qpid JMS and the Python client go there, others (Proton, rhea) end with that
    error, where a refused connection has them try the next member."""
    stream: MemberName = "postroom"
    """The stream of JetStream, or the topic of Kafka, which is made unless it exists; the queue manager's
    own. Beside it is one whose name ends with `-members`."""
    replicas: Annotated[int, Meta(ge=1, le=5)] = LEAST_REPLICAS
    """Of a stream, or a topic, that is made."""
    user: str = ""
    """Empty: as the URLs say (NATS), or without sign-in (Kafka)."""
    password_file: str = ""
    """File with that user's password."""
    sasl_mechanism: Literal["", "SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"] = ""
    """Kafka alone: how the user signs in; empty: SCRAM-SHA-512. PLAIN needs `kafka+tls://`."""
    credentials_file: str = ""
    """NATS alone: file of NATS' credentials (a JWT and its seed)."""
    tls_ca: str = ""
    """PEM file with the authorities of the servers' certificates; empty: those of the system."""
    tls_certificate: str = ""
    """PEM file with a client certificate."""
    tls_key: str = ""
    """PEM file with its key; empty: it is in the certificate's file."""
    monitoring: list[Url] = []
    """NATS alone: URLs of the servers' monitoring, such as `http://10.0.0.1:8222`, by which it is checked
    that they sync what they acknowledge; most of them must answer at a member's start."""
    allow: list[Literal["few-replicas", "unsynced"]] = []
    """Dangerous settings of the engine that are accepted: a stream of fewer than 3 replicas, or a topic with
    `min.insync.replicas` below 2; servers that don't sync what they acknowledge, or that can't be asked."""
    heartbeat_ms: Annotated[int, Meta(ge=50, le=60_000)] = 500
    """An active member that has appended nothing for so long appends a heartbeat."""
    stop_after_ms: Annotated[int, Meta(ge=200, le=600_000)] = 15_000
    """An active member whose append isn't acknowledged for so long stops, and one whose loop stands still for
    so long and 10 s at least. NATS takes up to 10 s to
    elect another leader of the stream, Kafka to do without a node that is gone
    (`broker.session.timeout.ms`): with less, the loss of one node may end the active member, too."""
    claim_after_ms: Annotated[int, Meta(ge=500, le=600_000)] = 3000
    """A member that has read nothing for so long, or up to 30 % longer, claims."""
    log_bytes: Positive = 1 << 30
    """The log is trimmed when it is larger, up to what every member has; until then a new member can begin
    with an empty folder."""
    max_log_bytes: Positive = 16 << 30
    """When it is larger it is trimmed whoever still needs it: a member that is further behind wants a copy of
    another's folder. More than what is written while a copy is made, or the copy comes too late."""
    copy_from: list[Url] = []
    """URLs of the members' [`[http]`](#http), such as `https://a.example:8161`, tried in order: a member that
    is new, damaged, or behind the log's beginning copies the active member's folder. Its own may be among
    them, so that all members have the same list; the active one answers. Empty: it refuses to start then."""
    copy_token_file: str = ""
    """File with a [token](http.md#tokens) with the right `replicate`, which all members' files of tokens
    have."""
    copy_tls_ca: str = ""
    """PEM file with the authorities of those URLs' certificates; empty: those of the system."""

    def __post_init__(self) -> None:
        self._check_engine()
        if self.user and not self.password_file:
            raise PlacedError(("user",), "without password_file: name the file with the password, too")
        if self.copy_from and not self.copy_token_file:
            what = "without copy_token_file: name the file with the token that opens `replicate` there"
            raise PlacedError(("copy_from",), what)
        for url in self.copy_from:
            if not _is_http(url):
                raise PlacedError(("copy_from",), f"{url!r} isn't http(s)://HOST:PORT")
        if self.heartbeat_ms * 2 > self.claim_after_ms:
            what = (
                f"{self.claim_after_ms} is less than two heartbeats ({self.heartbeat_ms} each): others would"
                " claim from a member that is there"
            )
            raise PlacedError(("claim_after_ms",), what)

    def _check_engine(self) -> None:
        try:
            engine = engine_of(self.servers)
        except ValueError as error:
            raise PlacedError(("servers",), str(error)) from error
        of_others = {Engine.NATS: ("sasl_mechanism",), Engine.KAFKA: ("monitoring", "credentials_file")}
        for key in of_others[engine]:
            if getattr(self, key):
                raise PlacedError((key,), f"is nothing of {engine.value}'s: leave it out")
        if engine is Engine.KAFKA:
            self._check_kafka()

    def _check_kafka(self) -> None:
        if any("@" in server for server in self.servers):
            raise PlacedError(("servers",), "with a user: name it in user and password_file")
        for at, server in enumerate(self.servers):
            if not _is_address(server):
                raise PlacedError(("servers", at), f"{server} is no address such as kafka://10.0.0.1:9092")
        if self.servers[0].startswith("kafka://"):
            for key in ("tls_ca", "tls_certificate", "tls_key"):
                if getattr(self, key):
                    raise PlacedError((key,), "without TLS: write kafka+tls:// in servers")
            if self.sasl_mechanism == "PLAIN":
                raise PlacedError(("sasl_mechanism",), "shows the password: write kafka+tls:// in servers")


def _is_address(server: str) -> bool:
    """Whether a URL is a scheme, a host and perhaps a port, and no more."""
    try:
        parts = urlsplit(server)
        return bool(parts.hostname) and parts.port != 0 and not (parts.path + parts.query + parts.fragment)
    except ValueError:
        return False

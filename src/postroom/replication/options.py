"""Settings of a member, each with its unit. Described in docs/reference/configuration.md."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from postroom.replication.errors import EngineRefused

LEAST_REPLICAS: Final = 3
"""With fewer, a node that is lost takes the log, or its availability, with it."""
ALLOW_REPLICAS: Final = "few-replicas"
ALLOW_SYNC: Final = "unsynced"
"""Dangerous settings of the engine that may be accepted by name."""


class Engine(Enum):
    """What keeps the log."""

    NATS = "NATS"
    KAFKA = "Kafka"


SCHEMES: Final = {
    "nats": Engine.NATS,
    "tls": Engine.NATS,
    "ws": Engine.NATS,
    "wss": Engine.NATS,
    "kafka": Engine.KAFKA,
    "kafka+tls": Engine.KAFKA,
}
"""Of the servers' URLs; without one it is NATS."""


def engine_of(servers: Iterable[str]) -> Engine:
    """The engine that these URLs name. Raises ValueError where they don't name one, with or without TLS."""
    schemes = {server.partition("://")[0] if "://" in server else "nats" for server in servers}
    for scheme in sorted(schemes - set(SCHEMES)):
        raise ValueError(f"{scheme}:// is no engine's: {', '.join(f'{name}://' for name in SCHEMES)}")
    engines = {SCHEMES[scheme] for scheme in schemes}
    if len(engines) > 1 or (engines == {Engine.KAFKA} and len(schemes) > 1):
        raise ValueError(f"{', '.join(f'{scheme}://' for scheme in sorted(schemes))}: all are of one kind")
    return engines.pop()


@dataclass(frozen=True)
class ReplicationOptions:
    """Who this member is, and where the log is."""

    servers: tuple[str, ...]
    member: str
    stream: str = "postroom"
    replicas: int = LEAST_REPLICAS
    """Of a stream, or a topic, that is made."""
    user: str = ""
    password_file: str = ""
    sasl_mechanism: str = ""
    """Of Kafka; empty: SCRAM-SHA-512."""
    credentials_file: str = ""
    tls_ca: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    monitoring: tuple[str, ...] = ()
    """URLs of the engine's monitoring, by which its settings are checked."""
    allow: frozenset[str] = frozenset()
    """Of `ALLOW_REPLICAS` and `ALLOW_SYNC`."""
    heartbeat_ms: int = 500
    """An active that has appended nothing for so long appends a heartbeat."""
    stop_after_ms: int = 15_000
    """An active whose append isn't acknowledged for so long stops."""
    claim_after_ms: int = 3000
    """A follower that has read nothing for so long claims."""
    log_bytes: int = 1 << 30
    """The log is trimmed above this, to what some member still needs."""
    max_log_bytes: int = 16 << 30
    """And above this whoever needs it."""
    copy_from: tuple[str, ...] = ()
    """URLs of members' HTTP, from which this one copies what the log has no more; empty: it doesn't."""
    copy_token_file: str = ""
    """File with a token that opens `replicate` there."""
    copy_tls_ca: str = ""
    """Authorities of those URLs' certificates; empty: the system's."""


def read_password(options: ReplicationOptions) -> str:
    """Of the engine's user. Raises `EngineRefused` where its file can't be read."""
    try:
        return Path(options.password_file).read_text().rstrip("\n")
    except OSError as error:
        engine = engine_of(options.servers).value
        what = f"the password of {engine}'s user {options.user} can't be read: {error}; name its file"
        raise EngineRefused(what) from error

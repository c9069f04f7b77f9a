"""Channels and credentials in the configuration file."""

from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict

from postroom.model.channel import MAX_BATCH_MESSAGES, MAX_RETRIES, ChannelDefinition, ChannelInvalid
from postroom.server.configuration.values import PlacedError

Count = Annotated[int, Meta(ge=0, le=MAX_RETRIES)]


class CredentialsConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Who the broker is where it opens a connection itself, and whom it trusts there."""

    user: str = ""
    """Signed in with PLAIN, with the password of ``password_file``."""
    password_file: str = ""
    """Its first line is the password; read at each connection."""
    ca_file: str = ""
    """PEM file with the authorities that are trusted; empty: those of the system."""
    cert_file: str = ""
    """PEM file with this broker's own certificate chain, shown to the partner; signs in with EXTERNAL where
    the partner offers it."""
    key_file: str = ""
    """PEM file with its private key; empty: it is in ``cert_file``."""

    def __post_init__(self) -> None:
        if self.password_file and not self.user:
            raise PlacedError(("password_file",), "without user: say whose password it is")
        if self.user and not self.password_file:
            raise PlacedError(("user",), "without password_file: name the file with the password")
        if self.key_file and not self.cert_file:
            raise PlacedError(("key_file",), "without cert_file: name the certificate's file too")


class ChannelConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """One channel that is defined at the start unless it exists; one that exists takes these settings.

    What each means stands with `ChannelDefinition`.
    """

    name: str
    type: Literal["sender", "receiver", "server", "requester"]
    protocol: Literal["postroom", "amqp"] = "postroom"
    connection: str = ""
    credentials: str = ""
    transmission_queue: str = ""
    batch_size: Annotated[int, Meta(ge=1, le=MAX_BATCH_MESSAGES)] = 50
    batch_limit_kb: Count = 5000
    batch_interval_ms: Count = 0
    batch_heartbeat_ms: Count = 0
    heartbeat_interval_s: Count = 300
    disconnect_interval_s: Count = 6000
    short_retry_count: Count = 10
    short_retry_interval_s: Count = 60
    long_retry_count: Count = MAX_RETRIES
    long_retry_interval_s: Count = 1200
    sequence_wrap: Count = MAX_RETRIES
    max_message_bytes: Count = 4_194_304
    nonpersistent_speed: Literal["fast", "normal"] = "fast"
    message_retry_count: Count = 10
    message_retry_interval_ms: Count = 1000
    message_retry_exit: str = ""
    message_retry_data: str = ""
    use_dead_letter_queue: bool = True
    put_authority: Literal["default", "context"] = "default"
    triggered: bool = True
    remote_address: str = ""
    local_queue: str = ""
    description: str = ""

    def __post_init__(self) -> None:
        try:
            self.definition().check()
        except ChannelInvalid as error:
            raise PlacedError((error.key,), error.description) from error

    def definition(self) -> ChannelDefinition:
        """The channel in the queue manager's terms."""
        return ChannelDefinition(**asdict(self))

"""Channels and credentials in the configuration file."""

from msgspec import NODEFAULT, Struct

from postroom.model.channel import ChannelDefinition, ChannelInvalid
from postroom.server.configuration.values import PlacedError, SettingsTable, settings_of


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


@settings_of(ChannelDefinition, defaults={"name": NODEFAULT, "type": NODEFAULT})
class ChannelConfig(SettingsTable):
    """One channel that is defined at the start unless it exists; one that exists takes these settings."""

    def __post_init__(self) -> None:
        try:
            self.definition().check()
        except ChannelInvalid as error:
            raise PlacedError((error.key,), error.description) from error

    def definition(self) -> ChannelDefinition:
        """The channel in the queue manager's terms."""
        return ChannelDefinition(**self.values())

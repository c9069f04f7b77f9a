"""What a connection tells of itself."""

from __future__ import annotations

from dataclasses import dataclass

from postroom import __version__
from postroom.client.messages.properties import JMSX_NAMES


@dataclass(frozen=True, kw_only=True)
class ConnectionMetaData:
    """Versions: of the JMS whose names and rules the client has, of the client, and what the broker is."""

    jms_version: str = "3.1"
    provider_name: str = "Postroom"
    provider_version: str = __version__
    broker_product: str | None = None
    """As the broker calls itself in its open; None where it doesn't."""
    broker_version: str | None = None
    jmsx_property_names: tuple[str, ...] = JMSX_NAMES
    """Properties of messages that JMS has named, and that mean something here."""

"""The ends of a link (part 3, section 3.5) and the transaction coordinator (part 4, section 4.5.1)."""

from dataclasses import dataclass, field
from typing import Final, final

from postroom.amqp.composite import Composite
from postroom.amqp.outcomes import DeliveryState

# terminus-durability (part 3, section 3.5.5).
DURABILITY_NONE: Final = 0
DURABILITY_CONFIGURATION: Final = 1
DURABILITY_UNSETTLED_STATE: Final = 2

# terminus-expiry-policy (part 3, section 3.5.6).
EXPIRY_LINK_DETACH: Final = "link-detach"
EXPIRY_SESSION_END: Final = "session-end"
EXPIRY_CONNECTION_CLOSE: Final = "connection-close"
EXPIRY_NEVER: Final = "never"

# std-dist-mode (part 3, section 3.5.7).
DISTRIBUTION_MOVE: Final = "move"
DISTRIBUTION_COPY: Final = "copy"

# Lifetime policies of dynamic nodes (part 3, section 3.5.10 to 3.5.13): descriptors of empty lists, found as
# ``dynamic_node_properties[Symbol("lifetime-policy")]``.
DELETE_ON_CLOSE: Final = 0x2B
DELETE_ON_NO_LINKS: Final = 0x2C
DELETE_ON_NO_MESSAGES: Final = 0x2D
DELETE_ON_NO_LINKS_OR_MESSAGES: Final = 0x2E


@final
@dataclass(kw_only=True)
class Source(Composite):
    """Where a link's messages come from (part 3, section 3.5.3). An empty list is an absent one."""

    address: str | None = None
    durable: int = DURABILITY_NONE
    expiry_policy: str = EXPIRY_SESSION_END
    timeout: int = 0
    """Seconds that an expiring terminus is kept."""
    dynamic: bool = False
    dynamic_node_properties: dict[object, object] | None = None
    distribution_mode: str | None = None
    filter: dict[object, object] | None = None
    default_outcome: DeliveryState | None = None
    outcomes: list[str] = field(default_factory=list)
    capabilities: list[str] = field(default_factory=list)


@final
@dataclass(kw_only=True)
class Target(Composite):
    """Where a link's messages go (part 3, section 3.5.4). An empty list is an absent one."""

    address: str | None = None
    durable: int = DURABILITY_NONE
    expiry_policy: str = EXPIRY_SESSION_END
    timeout: int = 0
    """Seconds that an expiring terminus is kept."""
    dynamic: bool = False
    dynamic_node_properties: dict[object, object] | None = None
    capabilities: list[str] = field(default_factory=list)


@final
@dataclass(kw_only=True)
class Coordinator(Composite):
    """The target of a link that controls transactions (part 4, section 4.5.1)."""

    capabilities: list[str] = field(default_factory=list)

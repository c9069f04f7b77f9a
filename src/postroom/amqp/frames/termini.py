"""The ends of a link (part 3, section 3.5) and the transaction coordinator (part 4, section 4.5.1)."""

from dataclasses import dataclass, field
from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from postroom.amqp.encoding import descriptors as d
from postroom.amqp.encoding.composite import Composite
from postroom.amqp.encoding.field_reader import ABSENT, Fields
from postroom.amqp.encoding.field_writer import FieldWriter
from postroom.amqp.encoding.reader import Reader
from postroom.amqp.frames.outcomes import DeliveryState, read_optional_state

# terminus-durability (part 3, section 3.5.5).
DURABILITY_NONE: Final = 0
DURABILITY_CONFIGURATION: Final = 1
DURABILITY_UNSETTLED_STATE: Final = 2

# terminus-expiry-policy (part 3, section 3.5.6).
EXPIRY_LINK_DETACH: Final = "link-detach"
EXPIRY_SESSION_END: Final = "session-end"
EXPIRY_CONNECTION_CLOSE: Final = "connection-close"
EXPIRY_NEVER: Final = "never"
EXPIRY_POLICIES: Final = (EXPIRY_LINK_DETACH, EXPIRY_SESSION_END, EXPIRY_CONNECTION_CLOSE, EXPIRY_NEVER)

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

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.string(self.address)
        f.uint(self.durable, DURABILITY_NONE)
        f.symbol(self.expiry_policy, EXPIRY_SESSION_END)
        f.uint(self.timeout, 0)
        f.boolean(self.dynamic, False)
        f.symbol_map(self.dynamic_node_properties)
        f.symbol(self.distribution_mode)
        f.symbol_map(self.filter)
        f.composite(self.default_outcome)
        f.symbols(self.outcomes)
        f.symbols(self.capabilities)
        f.finish(w, d.SOURCE)


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

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.string(self.address)
        f.uint(self.durable, DURABILITY_NONE)
        f.symbol(self.expiry_policy, EXPIRY_SESSION_END)
        f.uint(self.timeout, 0)
        f.boolean(self.dynamic, False)
        f.symbol_map(self.dynamic_node_properties)
        f.symbols(self.capabilities)
        f.finish(w, d.TARGET)


@final
@dataclass(kw_only=True)
class Coordinator(Composite):
    """The target of a link that controls transactions (part 4, section 4.5.1)."""

    capabilities: list[str] = field(default_factory=list)

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.symbols(self.capabilities)
        f.finish(w, d.COORDINATOR)


def read_source(f: Fields) -> Source | None:
    """The next field of an attach, its source; None when absent."""
    code = f.descriptor("source")
    if code == ABSENT:
        return None
    if code != d.SOURCE:
        raise f.reader.fail(f"source: descriptor 0x{int(code):x} is not that of a source")
    s = Fields(f.reader, "source")
    source = Source(
        address=s.optional_string("address"),
        durable=_read_durability(s),
        expiry_policy=_read_expiry_policy(s),
        timeout=s.uint_or("timeout", 0),
        dynamic=s.boolean_or("dynamic", False),
        dynamic_node_properties=s.symbol_map("dynamic-node-properties"),
        distribution_mode=s.optional_symbol("distribution-mode"),
        filter=s.symbol_map("filter"),
        default_outcome=read_optional_state(s, "default-outcome"),
        outcomes=s.symbols("outcomes"),
        capabilities=s.symbols("capabilities"),
    )
    s.close()
    return source


def read_target(f: Fields) -> Target | Coordinator | None:
    """The next field of an attach, its target; None when absent."""
    code = f.descriptor("target")
    if code == ABSENT:
        return None
    if code == d.TARGET:
        return _read_target(f.reader)
    if code == d.COORDINATOR:
        c = Fields(f.reader, "coordinator")
        coordinator = Coordinator(capabilities=c.symbols("capabilities"))
        c.close()
        return coordinator
    raise f.reader.fail(f"target: descriptor 0x{int(code):x} is not that of a target or coordinator")


def _read_target(r: Reader) -> Target:
    f = Fields(r, "target")
    target = Target(
        address=f.optional_string("address"),
        durable=_read_durability(f),
        expiry_policy=_read_expiry_policy(f),
        timeout=f.uint_or("timeout", 0),
        dynamic=f.boolean_or("dynamic", False),
        dynamic_node_properties=f.symbol_map("dynamic-node-properties"),
        capabilities=f.symbols("capabilities"),
    )
    f.close()
    return target


def _read_durability(f: Fields) -> i64:
    durable = f.uint_or("durable", DURABILITY_NONE)
    if durable > DURABILITY_UNSETTLED_STATE:
        raise f.reader.fail(f"durable is {durable}, at most {DURABILITY_UNSETTLED_STATE} is defined")
    return durable


def _read_expiry_policy(f: Fields) -> str:
    policy = f.optional_symbol("expiry-policy")
    if policy is None:
        return EXPIRY_SESSION_END
    if policy not in EXPIRY_POLICIES:
        raise f.reader.fail(f"expiry-policy is {policy[:40]!r}, not one of {', '.join(EXPIRY_POLICIES)}")
    return policy

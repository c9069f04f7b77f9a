"""The AMQP types that travel between the clients, and which client can't say or see which."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    """One value and who can't express it."""

    name: str
    typed: dict[str, Any]
    not_sent_by: frozenset[str] = field(default=frozenset())
    not_seen_by: frozenset[str] = field(default=frozenset())

    @property
    def body(self) -> dict[str, Any]:
        """The value as a message body: alone if it is a whole body to every client (Qpid JMS has bodies of
        few types), else in a list.
        """
        ((kind, _),) = self.typed.items()
        return {"value": self.typed if kind in WHOLE_BODIES else {"list": [self.typed]}}

    def can_travel(self, sender: str, receiver: str) -> bool:
        """Whether both clients of the pair can express it."""
        return sender not in self.not_sent_by and receiver not in self.not_seen_by


WHOLE_BODIES = ("string", "list", "map", "array")
JMS = frozenset({"qpid_jms"})
RHEA = frozenset({"rhea"})


def float_hex(value: float) -> str:
    return struct.pack(">f", value).hex()


def double_hex(value: float) -> str:
    return struct.pack(">d", value).hex()


def integer_cases() -> list[Case]:
    """The ends of every range, zero, and the edges of the short encodings."""
    ranges = {
        "ubyte": (0, 255),
        "ushort": (0, 65_535),
        "uint": (0, 1, 255, 256, 2**32 - 1),
        "ulong": (0, 1, 255, 256, 2**64 - 1),
        "byte": (-128, 127),
        "short": (-32_768, 32_767),
        "int": (-(2**31), -129, -128, 0, 127, 128, 2**31 - 1),
        "long": (-(2**63), -(2**53) - 1, -129, -128, 0, 127, 128, 2**63 - 1),
    }
    return [
        Case(f"{kind} {value}", {kind: str(value)}) for kind, values in ranges.items() for value in values
    ]


SCALARS = [
    Case("null", {"null": True}),
    Case("true", {"boolean": True}),
    Case("false", {"boolean": False}),
    *integer_cases(),
    # rhea keeps 8 bytes where a JavaScript number is too short, but begins with that 2³² too late.
    Case("ulong beyond JavaScript's integers", {"ulong": str(2**53 + 1)}, not_seen_by=RHEA),
    Case("float", {"float": float_hex(-1.5)}),
    Case("float infinity", {"float": float_hex(float("inf"))}),
    Case("double", {"double": double_hex(0.1)}),
    Case("double minus zero", {"double": double_hex(-0.0)}),
    Case("decimal32", {"decimal32": "a25abcde"}),
    Case("decimal64", {"decimal64": "a230000000000001"}),
    Case("decimal128", {"decimal128": "a208000000000000000000000000beef"}),
    Case("char", {"char": str(ord("é"))}),
    # A Java char is half of such a character, and proton-j cuts it off.
    Case("char beyond the first plane", {"char": str(ord("🚀"))}, JMS, JMS),
    Case("timestamp", {"timestamp": "1700000000123"}),
    Case("timestamp before 1970", {"timestamp": "-1"}),
    # JavaScript's Date ends in the year 275760.
    Case("timestamp far away", {"timestamp": str(2**63 - 1)}, not_seen_by=RHEA),
    Case("uuid", {"uuid": "00112233-4455-6677-8899-aabbccddeeff"}),
    Case("binary", {"binary": "00ff80"}),
    Case("empty binary", {"binary": ""}),
    Case("long binary", {"binary": "ab" * 300}),
    Case("string", {"string": "Grüße, 世界 🚀"}),
    Case("empty string", {"string": ""}),
    Case("long string", {"string": "ü" * 200}),
    Case("symbol", {"symbol": "x-opt-postroom"}),
    Case("long symbol", {"symbol": "s" * 300}),
]

CONTAINERS = [
    Case("empty list", {"list": []}),
    Case("list of lists", {"list": [{"list": [{"int": "1"}, {"null": True}]}, {"list": []}]}),
    Case("empty map", {"map": []}),
    Case(
        "map", {"map": [[{"string": "a"}, {"int": "1"}], [{"string": "b"}, {"list": [{"boolean": False}]}]]}
    ),
    Case(
        "map with keys of several types",
        {
            "map": [
                [{"symbol": "s"}, {"null": True}],
                [{"ulong": "7"}, {"string": "seven"}],
                [{"int": "-7"}, {"binary": "07"}],
            ]
        },
    ),
    # In rhea's writer the section's descriptor hides that of a described body: it goes inside of a list.
    Case(
        "described",
        {"described": [{"symbol": "postroom:point:list"}, {"list": [{"int": "3"}, {"int": "4"}]}]},
    ),
    Case("described by a number", {"described": [{"ulong": str(2**40)}, {"string": "value"}]}),
]

ARRAY_ITEMS: dict[str, list[Any]] = {
    "boolean": [True, False],
    "ubyte": ["0", "255"],
    "ushort": ["65535"],
    "uint": ["0", "4294967295"],
    "ulong": ["0", "18446744073709551615"],
    "byte": ["-128", "127"],
    "short": ["-32768"],
    "int": ["1", "-2147483648"],
    "long": ["1", "-9223372036854775808"],
    "float": [float_hex(1.5)],
    "double": [double_hex(-2.5)],
    "char": [str(ord("é"))],
    "timestamp": ["1700000000123"],
    "uuid": ["00112233-4455-6677-8899-aabbccddeeff"],
    "binary": ["00ff", ""],
    "string": ["a", "世界"],
    "symbol": ["x", "y"],
}
ARRAYS = [
    Case(f"array of {kind}", {"array": {"type": kind, "items": [{kind: item} for item in items]}})
    for kind, items in ARRAY_ITEMS.items()
]

CASES = [*SCALARS, *CONTAINERS, *ARRAYS]

# Application properties hold simple types only (part 3, section 3.2.5); Qpid JMS sets those that Java has.
JMS_PROPERTY_TYPES = ("boolean", "byte", "short", "int", "long", "float", "double", "string")
PROPERTY_CASES = [
    case
    if next(iter(case.typed)) in JMS_PROPERTY_TYPES
    else Case(case.name, case.typed, case.not_sent_by | JMS, case.not_seen_by)
    for case in SCALARS
    if case.name != "null"
]

IDS: list[dict[str, Any]] = [
    {"string": "order-7"},
    {"ulong": "18446744073709551615"},
    {"uuid": "00112233-4455-6677-8899-aabbccddeeff"},
    {"binary": "00ff80"},
]

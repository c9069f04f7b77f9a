"""Serial numbers: 32-bit counters that wrap round (RFC 1982), as transfer ids, delivery ids and delivery
counts are.

A serial is an int in 0 .. 2³² − 1. Two serials can be compared while they are less than 2³¹ apart.
Source: AMQP 1.0 part 2, section 2.8.10 (sequence-no); RFC 1982.
"""

from mypy_extensions import i64


def serial_diff(later: i64, earlier: i64) -> i64:
    """How many steps lead from ``earlier`` to ``later``: −2³¹ .. 2³¹ − 1, negative when ``later`` lies
    behind.
    """
    return ((later - earlier + 0x8000_0000) & 0xFFFF_FFFF) - 0x8000_0000

"""The numbers of IBM MQ that Postroom takes over: reasons, feedback, report options, kinds of messages.

Values and names are those of IBM's headers (MQRC_, MQFB_, MQRO_, MQMT_), without the prefix: dead-letter
headers, reports and the rules of the dead-letter queue handler carry them, so that programs and rules tables
written for IBM MQ read them.

A **report word** (MQMD.Report) is one number of 32 bits. Four families of it ask the queue manager for a
report, each for one without data, with the first bytes of the message, or with all of it. The value *with*
data contains the bits of the one without: what is asked for is found by comparing the bits under the family's
mask, never by looking at one bit.
"""

from enum import IntEnum, IntFlag
from typing import Final, final


class Reason(IntEnum):
    """Why something could not be put or got (MQRC_)."""

    NONE = 0
    MISSING_REPLY_TO_Q = 2027
    MSG_TOO_BIG_FOR_Q = 2030
    MSG_TOO_BIG_FOR_Q_MGR = 2031
    NO_MSG_AVAILABLE = 2033
    NOT_AUTHORIZED = 2035
    OPTION_NOT_VALID_FOR_TYPE = 2045
    PERSISTENT_NOT_ALLOWED = 2048
    PUT_INHIBITED = 2051
    Q_DELETED = 2052
    Q_FULL = 2053
    Q_SPACE_NOT_AVAILABLE = 2056
    REPORT_OPTIONS_ERROR = 2061
    STORAGE_NOT_AVAILABLE = 2071
    UNKNOWN_ALIAS_BASE_Q = 2082
    UNKNOWN_OBJECT_NAME = 2085
    UNKNOWN_OBJECT_Q_MGR = 2086
    UNKNOWN_REMOTE_Q_MGR = 2087
    XMIT_Q_TYPE_ERROR = 2091
    XMIT_Q_USAGE_ERROR = 2092
    RESOURCE_PROBLEM = 2102
    UNKNOWN_REPORT_OPTION = 2104
    SUPPRESSED_BY_EXIT = 2109
    DLH_ERROR = 2141
    REMOTE_Q_NAME_ERROR = 2184
    UNEXPECTED_ERROR = 2195
    UNKNOWN_XMIT_Q = 2196
    UNKNOWN_DEF_XMIT_Q = 2197
    DEF_XMIT_Q_USAGE_ERROR = 2199
    MSG_TOO_BIG_FOR_CHANNEL = 2218
    BACKOUT_THRESHOLD_REACHED = 2362


class Feedback(IntEnum):
    """What a report tells (MQFB_); an exception report tells a `Reason`, as MQ has no feedback for it."""

    NONE = 0
    QUIT = 256
    EXPIRATION = 258
    COA = 259
    COD = 260
    XMIT_Q_MSG_ERROR = 271
    PAN = 275
    NAN = 276


class MessageType(IntEnum):
    """What kind of message it is (MQMT_)."""

    REQUEST = 1
    REPLY = 2
    REPORT = 4
    DATAGRAM = 8


class Report(IntFlag):
    """Report options (MQRO_), one word."""

    NONE = 0
    PAN = 0x0000_0001
    NAN = 0x0000_0002
    ACTIVITY = 0x0000_0004
    PASS_CORREL_ID = 0x0000_0040
    PASS_MSG_ID = 0x0000_0080
    COA = 0x0000_0100
    COA_WITH_DATA = 0x0000_0300
    COA_WITH_FULL_DATA = 0x0000_0700
    COD = 0x0000_0800
    COD_WITH_DATA = 0x0000_1800
    COD_WITH_FULL_DATA = 0x0000_3800
    PASS_DISCARD_AND_EXPIRY = 0x0000_4000
    EXPIRATION = 0x0020_0000
    EXPIRATION_WITH_DATA = 0x0060_0000
    EXPIRATION_WITH_FULL_DATA = 0x00E0_0000
    EXCEPTION = 0x0100_0000
    EXCEPTION_WITH_DATA = 0x0300_0000
    EXCEPTION_WITH_FULL_DATA = 0x0700_0000
    DISCARD_MSG = 0x0800_0000


# The families as masks, and the rest of the word, as plain numbers for compiled code.
COA_MASK: Final = 0x0000_0700
COD_MASK: Final = 0x0000_3800
EXPIRATION_MASK: Final = 0x00E0_0000
EXCEPTION_MASK: Final = 0x0700_0000
FAMILIES: Final = COA_MASK | COD_MASK | EXPIRATION_MASK | EXCEPTION_MASK
"""What asks the queue manager for a report; PAN and NAN ask the receiving program."""
LIFE_FAMILIES: Final = COA_MASK | COD_MASK | EXPIRATION_MASK
"""Reports about what happens to a message on a queue; exceptions happen to it on its way there."""
DISCARD_MSG: Final = 0x0800_0000
PASS_MSG_ID: Final = 0x0000_0080
PASS_CORREL_ID: Final = 0x0000_0040
PASS_DISCARD_AND_EXPIRY: Final = 0x0000_4000

SUPPORTED: Final = FAMILIES | DISCARD_MSG | PASS_MSG_ID | PASS_CORREL_ID | PASS_DISCARD_AND_EXPIRY | 0x3
"""The options that mean something here; 0x3 are PAN and NAN."""
REJECT_MASK: Final = 0x101C_0000
"""An option in it that isn't supported: the put is refused (MQRO_REJECT_UNSUP_MASK)."""
ACCEPT_MASK: Final = 0xEFE0_00FF
"""One in it: accepted with a warning (MQRO_ACCEPT_UNSUP_MASK)."""
ACCEPT_IF_TRANSMITTED_MASK: Final = 0x0003_FF00
"""One in it: accepted with a warning if the message goes to a transmission queue, else refused
(MQRO_ACCEPT_UNSUP_IF_XMIT_MASK).
"""
WORD_MASK: Final = 0xFFFF_FFFF


class Data(IntEnum):
    """How much of its message a report of one family is to carry; NONE: no report is asked for."""

    NONE = 0
    PLAIN = 1
    WITH_DATA = 3
    WITH_FULL_DATA = 7


def requested_data(report: int, mask: int) -> Data:
    """What ``report`` asks for in the family with this ``mask``.

    ValueError for bits that are none of the family's values, as two of them added make.
    """
    return Data((report & mask) // (mask & -mask))


_TRANSIENT: Final = frozenset(
    (
        Reason.PUT_INHIBITED.value,
        Reason.Q_FULL.value,
        Reason.Q_SPACE_NOT_AVAILABLE.value,
        Reason.STORAGE_NOT_AVAILABLE.value,
    )
)


def is_transient(reason: int) -> bool:
    """Whether it may pass by itself, so that a put is worth another try: a queue, the disk or the memory is
    full, or puts are inhibited."""
    return reason in _TRANSIENT


@final
class Undelivered:
    """A message that came through a channel and could not be put: ``reason`` (MQRC_ or MQFB_), where it was
    to go, and a sentence for people."""

    __slots__ = ("description", "queue", "queue_manager", "reason")

    def __init__(self, reason: int, queue: str, queue_manager: str, description: str) -> None:
        self.reason = reason
        self.queue = queue
        self.queue_manager = queue_manager
        self.description = description

    def __repr__(self) -> str:
        return f"Undelivered({reason_name(self.reason)}, {self.queue}@{self.queue_manager})"


_REASON_NAMES: Final = {member.value: f"MQRC_{member.name}" for member in Reason if member.value != 0} | {
    member.value: f"MQFB_{member.name}" for member in Feedback if member.value != 0
}


def reason_name(reason: int) -> str:
    """The name of an MQRC_ or MQFB_ number, as rules tables write it; the number itself where it has none."""
    return _REASON_NAMES.get(reason, str(reason))

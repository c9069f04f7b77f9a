"""The report options that a message brings: which reports its sender wants (MQMD.Report of IBM MQ, one word).

They come as the application properties that IBM's JMS classes define, or as a whole word: in the message
annotation ``x-opt-report`` or the application property ``JMS_IBM_MQMD_Report``. What several of them ask is
asked together. Whether the options make sense is the queue manager's to say; here it is only seen that each
is a number, and of its own kind.
"""

from typing import Final

from mypy_extensions import i64

from postroom.amqp.encoding.reader import Reader
from postroom.amqp.errors import INVALID_FIELD, DecodeError
from postroom.model import mq

REPORT_ANNOTATION: Final = "x-opt-report"
REPORT_PROPERTY: Final = "JMS_IBM_MQMD_Report"
MARK: Final = b"_Report"
"""In the name of every one of the properties: sections without it need no closer look."""

PROPERTY_MASKS: Final = {
    "JMS_IBM_Report_Exception": mq.EXCEPTION_MASK,
    "JMS_IBM_Report_Expiration": mq.EXPIRATION_MASK,
    "JMS_IBM_Report_COA": mq.COA_MASK,
    "JMS_IBM_Report_COD": mq.COD_MASK,
    "JMS_IBM_Report_PAN": int(mq.Report.PAN),
    "JMS_IBM_Report_NAN": int(mq.Report.NAN),
    "JMS_IBM_Report_Pass_Msg_ID": mq.PASS_MSG_ID,
    "JMS_IBM_Report_Pass_Correl_ID": mq.PASS_CORREL_ID,
    "JMS_IBM_Report_Discard_Msg": mq.DISCARD_MSG,
    REPORT_PROPERTY: mq.WORD_MASK,
}
"""What the value of each property may contain."""

_MIN_WORD: Final = -0x8000_0000


def word_of(name: str, value: object, mask: int) -> i64:
    """A report word, or the part of one under ``mask``; 0 for null. DecodeError for anything else."""
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not _MIN_WORD <= value <= mq.WORD_MASK:
        raise _wrong(name, "a number of 32 bits expected")
    word = int(value) & mq.WORD_MASK
    if word & ~mask != 0:
        raise _wrong(name, f"0x{word:08X} is none of its values")
    return word


def property_options(r: Reader) -> i64:
    """The options in the application properties, a map that ``r`` stands before and passes."""
    outer_end = r.end
    count = r.open_compound(r.take_byte())
    word: i64 = 0
    for _ in range(count >> 1):
        name = r.value()
        mask = PROPERTY_MASKS.get(name) if isinstance(name, str) else None
        if mask is None:
            r.skip()
        else:
            word |= word_of(str(name), r.value(), mask)
    r.close_compound(outer_end)
    return word


def _wrong(name: str, what: str) -> DecodeError:
    reason = f"MQRC_REPORT_OPTIONS_ERROR ({mq.Reason.REPORT_OPTIONS_ERROR.value})"
    return DecodeError(f"{reason}: {name}: {what}", INVALID_FIELD)

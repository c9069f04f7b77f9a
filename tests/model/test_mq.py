"""IBM MQ's numbers, and what a report word asks for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.model import mq
from postroom.model.mq import Data, Feedback, MessageType, Reason, Report

FAMILIES = {
    mq.EXCEPTION_MASK: (Report.EXCEPTION, Report.EXCEPTION_WITH_DATA, Report.EXCEPTION_WITH_FULL_DATA),
    mq.EXPIRATION_MASK: (Report.EXPIRATION, Report.EXPIRATION_WITH_DATA, Report.EXPIRATION_WITH_FULL_DATA),
    mq.COA_MASK: (Report.COA, Report.COA_WITH_DATA, Report.COA_WITH_FULL_DATA),
    mq.COD_MASK: (Report.COD, Report.COD_WITH_DATA, Report.COD_WITH_FULL_DATA),
}


def test_the_values_are_those_of_ibm() -> None:
    assert [int(value) for family in FAMILIES.values() for value in family] == [
        *(0x01000000, 0x03000000, 0x07000000),
        *(0x00200000, 0x00600000, 0x00E00000),
        *(0x100, 0x300, 0x700),
        *(0x800, 0x1800, 0x3800),
    ]
    assert (Report.DISCARD_MSG, Report.PASS_MSG_ID, Report.PASS_CORREL_ID) == (0x08000000, 0x80, 0x40)
    assert int(Report.PASS_DISCARD_AND_EXPIRY) == 0x4000
    assert (mq.REJECT_MASK, mq.ACCEPT_MASK) == (0x101C0000, 0xEFE000FF)
    assert mq.ACCEPT_IF_TRANSMITTED_MASK == 0x0003FF00
    assert (Feedback.COA, Feedback.COD, Feedback.EXPIRATION) == (259, 260, 258)
    assert (Feedback.PAN, Feedback.NAN, Feedback.XMIT_Q_MSG_ERROR) == (275, 276, 271)
    assert (Reason.Q_FULL, Reason.PUT_INHIBITED, Reason.UNKNOWN_OBJECT_NAME) == (2053, 2051, 2085)
    assert (Reason.UNKNOWN_REMOTE_Q_MGR, Reason.MSG_TOO_BIG_FOR_Q) == (2087, 2030)
    assert (Reason.MSG_TOO_BIG_FOR_Q_MGR, Reason.NOT_AUTHORIZED) == (2031, 2035)
    assert (Reason.NO_MSG_AVAILABLE, Reason.MISSING_REPLY_TO_Q) == (2033, 2027)
    assert (Reason.REPORT_OPTIONS_ERROR, Reason.UNKNOWN_REPORT_OPTION) == (2061, 2104)
    assert int(Reason.BACKOUT_THRESHOLD_REACHED) == 2362
    assert [int(kind) for kind in MessageType] == [1, 2, 4, 8]


def test_the_three_masks_share_out_the_word() -> None:
    parts = (mq.REJECT_MASK, mq.ACCEPT_MASK, mq.ACCEPT_IF_TRANSMITTED_MASK)
    assert parts[0] | parts[1] | parts[2] == mq.WORD_MASK
    assert parts[0] + parts[1] + parts[2] == mq.WORD_MASK
    assert mq.SUPPORTED & mq.REJECT_MASK == 0


@pytest.mark.parametrize("mask", FAMILIES)
@given(word=st.integers(0, mq.WORD_MASK))
def test_a_family_is_compared_under_its_mask(mask: int, word: int) -> None:
    values = [0, *(int(value) for value in FAMILIES[mask])]
    if word & mask in values:
        assert mq.requested_data(word, mask) == list(Data)[values.index(word & mask)]
    else:
        with pytest.raises(ValueError, match="not a valid Data"):
            mq.requested_data(word, mask)


def test_what_may_pass_by_itself_is_transient() -> None:
    transient = {reason for reason in Reason if mq.is_transient(reason)}
    assert transient == {2051, 2053, 2056, 2071}
    assert not any(mq.is_transient(feedback) for feedback in Feedback)
    assert mq.is_transient(mq.Undelivered(Reason.Q_FULL, "Q", "QM", "").reason)


def test_numbers_have_names() -> None:
    assert mq.reason_name(2053) == "MQRC_Q_FULL"
    assert mq.reason_name(258) == "MQFB_EXPIRATION"
    assert mq.reason_name(99999) == "99999"
    assert repr(mq.Undelivered(2053, "Q", "QM", "full")) == "Undelivered(MQRC_Q_FULL, Q@QM)"

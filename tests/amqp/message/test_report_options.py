"""The report options in the head of a message: found, added up, and refused where they are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.amqp.encoding.types import Int, Symbol, UInt
from postroom.amqp.errors import AmqpError
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.report_options import PROPERTY_MASKS
from postroom.amqp.message.sections import Data, Message
from postroom.model import mq

NAMES = sorted(PROPERTY_MASKS)
OTHERS = st.text(max_size=20).filter(lambda name: name not in PROPERTY_MASKS)
VALUES = (
    st.none() | st.booleans() | st.text(max_size=5) | st.binary(max_size=5) | st.integers(-(2**63), 2**63 - 1)
)


def report_of(properties: dict[str, object], annotations: dict[object, object] | None = None) -> int:
    payload = Message(
        message_annotations=annotations or {}, application_properties=properties, body=Data([b"_Report"])
    ).encode()
    return int(scan_head(payload).report)


@given(st.dictionaries(st.sampled_from(NAMES), st.integers(0, mq.WORD_MASK)), st.dictionaries(OTHERS, VALUES))
def test_what_the_properties_ask_for_is_asked_together(
    words: dict[str, int], others: dict[str, object]
) -> None:
    options = {name: word & PROPERTY_MASKS[name] for name, word in words.items()}
    told = {name: Int(word - (1 << 32) if word >> 31 else word) for name, word in options.items()}
    expected = 0
    for word in options.values():
        expected |= word
    assert report_of(others | told) == expected


@given(st.sampled_from(NAMES), VALUES)
def test_a_value_that_is_none_is_refused(name: str, value: object) -> None:
    number = isinstance(value, int) and not isinstance(value, bool) and -(1 << 31) <= value < 1 << 32
    if value is None:
        assert report_of({name: None}) == 0
    elif number and int(value) & mq.WORD_MASK & ~PROPERTY_MASKS[name] == 0:  # type: ignore[call-overload]
        assert report_of({name: value}) == int(value) & mq.WORD_MASK  # type: ignore[call-overload]
    else:
        with pytest.raises(AmqpError, match=r"MQRC_REPORT_OPTIONS_ERROR \(2061\)") as refused:
            report_of({name: value})
        assert refused.value.condition == "amqp:invalid-field"


@given(st.integers(0, mq.WORD_MASK))
def test_the_annotation_is_the_whole_word(word: int) -> None:
    assert report_of({}, {Symbol("x-opt-report"): UInt(word)}) == word


def test_both_are_added() -> None:
    assert report_of({"JMS_IBM_Report_COD": Int(0x800)}, {Symbol("x-opt-report"): UInt(0x100)}) == 0x900


def test_without_any_there_is_none() -> None:
    assert report_of({"colour": "red"}, {Symbol("x-opt-other"): 5}) == 0

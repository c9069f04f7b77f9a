"""The trace context of a message: what is one, and where it may stand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.amqp.encoding.types import Symbol
from postroom.amqp.message.message_fields import MessageFields
from postroom.amqp.message.sections import Data, Message
from postroom.amqp.message.trace_context import (
    MAX_TRACESTATE_CHARS,
    TraceContext,
    parse_traceparent,
    trace_context_of,
)
from tests.amqp.encoded import traceparent

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
ids = st.binary(min_size=16, max_size=16).filter(any), st.binary(min_size=8, max_size=8).filter(any)


def carried(annotations: dict[object, object], properties: dict[str, object]) -> TraceContext | None:
    message = Message(
        message_annotations=annotations, application_properties=properties, body=Data([b"traceparent"])
    )
    return trace_context_of(MessageFields(4, True, 0, message.encode(), None))


def as_binary(context: TraceContext) -> bytes:
    flags = bytes([int(context.flags)])
    return b"\0\0" + context.trace_id + b"\1" + context.span_id + b"\2" + flags


@given(*ids, st.integers(0, 255))
def test_text_and_binary_say_the_same(trace_id: bytes, span_id: bytes, flags: int) -> None:
    context = TraceContext(trace_id, span_id, flags)
    for form in (traceparent(context), as_binary(context)):
        found = parse_traceparent(form)
        assert found is not None
        assert (found.trace_id, found.span_id, found.flags) == (trace_id, span_id, flags)
        assert found.is_sampled() == bool(flags & 1)


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        "",
        PARENT[:-1],
        PARENT + "-",
        PARENT + "0",
        PARENT.upper(),
        "ff" + PARENT[2:],
        PARENT.replace("-", "_"),
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-0g",
        f"00-{TRACE[:-1]}é-{SPAN}-01",
        b"",
        bytes(29),
        as_binary(TraceContext(bytes(15) + b"\1", b"\1" * 8, 1))[:-1],
        b"\1" + as_binary(TraceContext(b"\1" * 16, b"\1" * 8, 1))[1:],
    ],
)
def test_what_is_no_context(value: object) -> None:
    assert parse_traceparent(value) is None


@given(st.text(max_size=80) | st.binary(max_size=40))
def test_anything_is_read_without_an_error(value: str | bytes) -> None:
    found = parse_traceparent(value)
    assert found is None or len(found.trace_id) == 16


def test_a_later_version_may_say_more() -> None:
    found = parse_traceparent(f"01{PARENT[2:]}-more")
    assert found is not None and found.trace_id.hex() == TRACE


def test_annotations_count_before_properties() -> None:
    other = f"00-{TRACE}-{'1' * 16}-00"
    found = carried({Symbol("traceparent"): other}, {"traceparent": PARENT, "tracestate": "a=1"})
    assert found is not None and traceparent(found) == other and found.trace_state == ""


def test_qpids_annotation_is_a_map_of_both() -> None:
    both = {"traceparent": PARENT, "tracestate": "a=1,b=2"}
    found = carried({Symbol("x-opt-qpid-tracestate"): both}, {})
    assert found is not None and traceparent(found) == PARENT and found.trace_state == "a=1,b=2"


def test_one_that_cant_be_read_is_passed_over() -> None:
    found = carried({Symbol("traceparent"): "nonsense"}, {"traceparent": PARENT})
    assert found is not None and traceparent(found) == PARENT
    assert carried({}, {"traceparent": 1}) is None
    assert carried({}, {}) is None, "a body isn't looked at"


@pytest.mark.parametrize(
    ("state", "read"),
    [("a=1", "a=1"), ({"a": "1", "b": "2"}, "a=1,b=2"), (7, ""), ("x" * (MAX_TRACESTATE_CHARS + 1), "")],
)
def test_the_trace_state(state: object, read: str) -> None:
    found = carried({Symbol("traceparent"): PARENT, Symbol("tracestate"): state}, {})
    assert found is not None and found.trace_state == read

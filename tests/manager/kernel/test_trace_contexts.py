"""Which contexts are noted as messages arrive."""

import pytest

from postroom.amqp.encoding.types import Symbol
from postroom.amqp.message.sections import Data, Message, Properties
from postroom.manager.kernel.trace_contexts import MAX_OPENING_BYTES, TraceContexts
from tests.amqp.encoded import traceparent
from tests.manager import messages
from tests.manager.world import World

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{SPAN}-01"
UNSAMPLED = f"00-{TRACE}-{SPAN}-00"


def noted(*opened: bytes, ratio: float = 1.0, most: int = 100) -> list[str]:
    contexts = TraceContexts(ratio, most)
    for serial, opening in enumerate(opened):
        contexts.note(serial, opening)
    return [traceparent(context) for _, context in contexts.take()]


def a_message(annotations: dict[object, object] | None = None, **properties: object) -> bytes:
    return Message(
        message_annotations=annotations or {}, application_properties=dict(properties), body=Data([b"body"])
    ).encode()


def test_those_that_are_sampled() -> None:
    openings = [a_message(traceparent=value) for value in (SAMPLED, UNSAMPLED, "nonsense")]
    assert noted(a_message(), *openings, b"traceparent", b"") == [SAMPLED]


@pytest.mark.parametrize("unsampled_first", [True, False])
def test_an_annotation_counts_before_a_property(unsampled_first: bool) -> None:
    first, last = (UNSAMPLED, SAMPLED) if unsampled_first else (SAMPLED, UNSAMPLED)
    opening = a_message({Symbol("traceparent"): first}, traceparent=last)
    assert noted(opening) == ([] if unsampled_first else [SAMPLED])


def test_the_name_elsewhere_misleads_nobody() -> None:
    message = Message(
        properties=Properties(subject="traceparent", reply_to=UNSAMPLED),
        application_properties={"traceparent": SAMPLED},
    )
    assert noted(message.encode()) == [SAMPLED]


def test_what_comes_late_in_a_message_isnt_looked_for() -> None:
    assert noted(a_message(first="x" * MAX_OPENING_BYTES, traceparent=SAMPLED)) == []


def test_the_ratio_is_of_traces_by_their_last_56_bits() -> None:
    low, high = f"00-{'f' * 18}{'0' * 13}1-{SPAN}-01", f"00-{'1' * 18}{'f' * 14}-{SPAN}-01"
    openings = [a_message(traceparent=each) for each in (low, high)]
    assert noted(*openings, ratio=0.0) == []
    assert noted(*openings, ratio=0.5) == [high]
    assert noted(*openings, ratio=1.0) == [low, high]


def test_notes_that_nobody_takes_are_bounded_and_counted() -> None:
    contexts = TraceContexts(1.0, 2)
    for serial in range(5):
        contexts.note(serial, a_message(traceparent=SAMPLED))
    assert [serial for serial, _ in contexts.take()] == [0, 1]
    assert contexts.dropped == 3
    assert contexts.take() == []


def test_a_queue_manager_notes_what_it_has_taken() -> None:
    world = World()
    small, queue = world.queue("small", max_message_bytes=10), world.queue()
    messages.put(world, queue, "before anybody traces", traceparent=SAMPLED)
    contexts = world.manager.core.trace_contexts = TraceContexts(1.0, 100)
    messages.put(world, queue, "one", traceparent=SAMPLED)
    messages.put(world, small, "too large", traceparent=SAMPLED)
    transaction = world.manager.begin(world.now_us)
    messages.put(world, queue, "two", transaction=transaction, traceparent=SAMPLED)
    taken = contexts.take()
    assert len(taken) == 2 and taken[0][0] < taken[1][0]


@pytest.mark.parametrize("flags", range(0, 256, 5))
def test_the_last_bit_of_the_flags_decides(flags: int) -> None:
    parent = f"{SAMPLED[:-2]}{flags:02x}"
    assert noted(a_message(traceparent=parent)) == ([parent] if flags & 1 else [])

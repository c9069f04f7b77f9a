"""Changes to stored sections: what they change, and that every other byte stays."""

from hypothesis import given
from hypothesis import strategies as st

from postroom.amqp.encoding.types import Symbol
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.rewrite import has_annotations, reply_to_of, take_annotation, with_reply_to
from postroom.amqp.message.sections import Data, Message, Properties, Value, decode_message
from postroom.manager.headers.transmission_header import (
    MAX_HOPS,
    TRANSMISSION,
    TransmissionHeader,
    take_transmission,
)

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=300)
values = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.text(max_size=300), st.booleans(), st.binary(max_size=300)
)
annotations = st.dictionaries(
    st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=40).map(Symbol), values, max_size=5
)
properties = st.builds(
    Properties,
    message_id=st.one_of(st.none(), names, st.uuids()),
    to=st.one_of(st.none(), names),
    reply_to=st.one_of(st.none(), names),
    correlation_id=st.one_of(st.none(), st.binary(max_size=20)),
    group_sequence=st.one_of(st.none(), st.integers(0, 2**32 - 1)),
    reply_to_group_id=st.one_of(st.none(), names),
)
messages = st.builds(
    Message,
    message_annotations=annotations,
    properties=st.one_of(st.none(), properties),
    application_properties=st.dictionaries(names, values, max_size=3),
    body=st.one_of(
        st.builds(Data, st.lists(st.binary(max_size=400), min_size=1, max_size=3)), st.builds(Value, values)
    ),
)
headers = st.builds(TransmissionHeader, names, names, st.integers(1, MAX_HOPS))


@given(messages, headers)
def test_a_transmission_header_goes_on_and_off_again(message: Message, header: TransmissionHeader) -> None:
    stored = message.encode()
    sent = header.put_on(stored)
    scan_head(sent)
    found, rest = take_transmission(sent)
    assert (found, rest) == (header, stored)
    assert take_transmission(rest) == (None, rest)


@given(messages, headers, headers)
def test_a_header_takes_the_place_of_another(
    message: Message, forged: TransmissionHeader, header: TransmissionHeader
) -> None:
    stored = message.encode()
    sent = header.put_on(forged.put_on(stored))
    assert take_transmission(sent) == (header, stored)


@given(messages, headers)
def test_readers_see_the_header_and_everything_else(message: Message, header: TransmissionHeader) -> None:
    read = decode_message(header.put_on(message.encode()))
    assert read.message_annotations.pop(TRANSMISSION) == [header.queue, header.queue_manager, header.hops]
    assert read == message


@given(
    messages,
    st.one_of(
        values,
        st.lists(values, max_size=4),
        st.tuples(names, names, st.sampled_from([0, -1, MAX_HOPS + 1, True, "2"])).map(list),
        st.sampled_from([["", "QM", 1], ["Q", "", 1]]),
    ),
)
def test_what_is_no_header_is_none(message: Message, value: object) -> None:
    message.message_annotations[Symbol(TRANSMISSION)] = value
    header, rest = take_transmission(message.encode())
    assert header is None
    del message.message_annotations[Symbol(TRANSMISSION)]
    assert rest == message.encode()


@given(messages, st.data())
def test_one_annotation_is_taken_and_the_others_stay(message: Message, data: st.DataObject) -> None:
    stored = message.encode()
    assert has_annotations(stored) == bool(message.message_annotations)
    assert take_annotation(stored, "x-opt-of-nobody-else") == (None, stored)
    if not message.message_annotations:
        return
    name = data.draw(st.sampled_from(sorted(message.message_annotations, key=str)))
    wanted = message.message_annotations.pop(name)
    assert take_annotation(stored, str(name)) == (wanted, message.encode())


@given(messages, names)
def test_another_reply_to_leaves_the_rest(message: Message, reply_to: str) -> None:
    stored = message.encode()
    before = message.properties.reply_to if message.properties is not None else None
    assert reply_to_of(stored) == (before or "")
    if not before:
        return
    assert message.properties is not None
    message.properties.reply_to = reply_to
    changed = with_reply_to(stored, reply_to)
    assert decode_message(changed) == message
    assert reply_to_of(changed) == reply_to


def test_an_annotation_in_every_form_of_its_section() -> None:
    """Long and symbolic descriptors, a map of 32 bits, the key as string."""
    content = b"\xa1\x01a\x43"
    small = b"\xc1" + bytes((len(content) + 1, 2)) + content
    large = b"\xd1" + (len(content) + 4).to_bytes(4, "big") + (2).to_bytes(4, "big") + content
    name = b"amqp:message-annotations:map"
    forms = (b"\x00\x53\x72", b"\x00\x80" + bytes(7) + b"\x72", b"\x00\xa3" + bytes((len(name),)) + name)
    body = Message(body=Data([b"x"])).encode()
    for descriptor in forms:
        for section in (small, large):
            assert take_annotation(descriptor + section + body, "a") == (0, body)
            assert take_annotation(descriptor + section + body, "b") == (None, descriptor + section + body)


def test_nothing_is_found_in_nothing() -> None:
    assert not has_annotations(b"")
    assert take_annotation(b"", "a") == (None, b"")
    assert reply_to_of(b"") == ""


NO_TEXT = b"\xa1\x02\xff\xfe"
"""A string that is no UTF-8: scanned, but never decoded on its way."""


def test_what_can_not_be_decoded_is_passed_on() -> None:
    """Nobody has looked into it when the message was taken."""
    key = b"\xa3\x02\xff\xfe"
    header = b"\xa3\x12" + TRANSMISSION.encode()
    lists = [b"\xc0\x0b\x03" + NO_TEXT + NO_TEXT + b"\x52\x01", b"\x45", NO_TEXT]
    body = b"\x00\x53\x73\xc0\x09\x05\x40\x40\x40\x40" + NO_TEXT + b"\x00\x53\x75\xa0\x01x"
    scan_head(body)
    assert reply_to_of(body) == ""
    assert reply_to_of(with_reply_to(body, "answers")) == "answers"
    for value in lists:
        for items in ([header + value], [header + value, key + b"\x43"], [key + b"\x43", header + value]):
            content = b"".join(items)
            stored = b"\x00\x53\x72\xc1" + bytes((len(content) + 1, 2 * len(items))) + content + body
            scan_head(stored)
            found, rest = take_transmission(stored)
            assert found is None
            scan_head(rest)
            assert TRANSMISSION.encode() not in rest and rest.endswith(body)
            sent = TransmissionHeader("Q", "QM2", 1).put_on(stored)
            assert take_transmission(sent) == (TransmissionHeader("Q", "QM2", 1), rest)

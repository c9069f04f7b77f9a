"""A message that has no id is given one: nothing else of it changes."""

from hypothesis import given
from hypothesis import strategies as st

from postroom.amqp.encoding.types import Symbol
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.rewrite import with_message_id
from postroom.amqp.message.sections import Data, Message, Properties, decode_message

texts = st.text(min_size=1, max_size=300)
properties = st.one_of(
    st.none(),
    st.just(Properties()),
    st.builds(Properties, to=texts, subject=st.none() | texts, group_sequence=st.none() | st.integers(0, 9)),
)
annotations = st.dictionaries(
    st.builds(Symbol, st.text("abc", min_size=1)), st.integers(0, 9) | texts, max_size=3
)


@given(properties, annotations, st.binary(max_size=300), texts)
def test_it_gets_the_id_and_keeps_everything_else(
    own: Properties | None, annotated: dict[object, object], data: bytes, id: str
) -> None:
    message = Message(properties=own, message_annotations=annotated, body=Data([data]))
    stored = with_message_id(message.encode(), id)
    assert scan_head(stored).message_id == id.encode()
    expected = decode_message(message.encode())
    if expected.properties is None:
        expected.properties = Properties()
    expected.properties.message_id = id
    assert decode_message(stored) == expected

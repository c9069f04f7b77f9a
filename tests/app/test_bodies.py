"""Bodies as the types of handlers, from JSON and from the values of AMQP; what is said of bad ones."""

from __future__ import annotations

import subprocess
import sys
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
import pytest
from pydantic import BaseModel
from pydantic.dataclasses import dataclass as pydantic_dataclass

from postroom.amqp.encoding.types import Float32, Int, Symbol, Timestamp
from postroom.app.bodies import UndecodableError, as_sent, decoder_for
from postroom.client import BytesMessage, MapMessage, Message, MessageFormatException, TextMessage
from tests.clients.driver import ROOT


class Order(msgspec.Struct):
    id: int
    note: str = ""


@dataclass
class Line:
    item: str
    count: int


class Invoice(BaseModel):
    id: int
    due: datetime | None = None


@pydantic_dataclass
class Parcel:
    weight: float


def decoded(kind: Any, body: object) -> object:
    return decoder_for(kind)(Message(body))


JSON: list[tuple[Any, object, object]] = [
    (Order, b'{"id": 1}', Order(1)),
    (Order, '{"id": 1, "note": "soon"}', Order(1, "soon")),
    (list[Order], b'[{"id": 1}, {"id": 2}]', [Order(1), Order(2)]),
    (Line, b'{"item": "apples", "count": 2}', Line("apples", 2)),
    (dict[str, int], '{"a": 1}', {"a": 1}),
    (Order | None, "null", None),
    (int, "7", 7),
    (Literal["a", "b"], '"a"', "a"),
    (Annotated[int, msgspec.Meta(ge=1)], "7", 7),
    (datetime, '"2026-01-02T03:04:05Z"', datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
    (Invoice, b'{"id": 1}', Invoice(id=1)),
    (list[Invoice], '[{"id": 1}]', [Invoice(id=1)]),
    (Parcel, '{"weight": 1.5}', Parcel(1.5)),
]


@pytest.mark.parametrize(("kind", "body", "expected"), JSON)
def test_json_in_bytes_or_text_is_read_as_the_type(kind: Any, body: object, expected: object) -> None:
    assert decoded(kind, body) == expected


VALUES: list[tuple[Any, object, object]] = [
    (Order, {"id": Int(1), "note": Symbol("soon")}, Order(1, "soon")),
    (Line, {"item": "apples", "count": 2}, Line("apples", 2)),
    (list[float], [Float32(1.5), 2.0], [1.5, 2.0]),
    (tuple[str, int], ["a", Int(1)], ("a", 1)),
    (datetime, Timestamp(1_000), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
    (uuid.UUID, uuid.UUID(int=1), uuid.UUID(int=1)),
    (bool, True, True),
    (Order | None, None, None),
    (Invoice, {"id": Int(1), "due": Timestamp(0)}, Invoice(id=1, due=datetime(1970, 1, 1, tzinfo=UTC))),
]


@pytest.mark.parametrize(("kind", "body", "expected"), VALUES)
def test_values_of_amqp_are_read_as_the_type(kind: Any, body: object, expected: object) -> None:
    assert decoded(kind, body) == expected


def test_a_map_message_is_read_as_the_type() -> None:
    message = MapMessage()
    message.set_int("id", 1)
    assert decoder_for(Order)(message) == Order(1)


def test_text_bytes_messages_and_anything_are_taken_as_they_are() -> None:
    assert decoded(str, "a") == "a"
    assert decoded(str, b"\xc3\xa9") == "é"
    assert decoded(bytes, b"\xff") == b"\xff"
    assert decoded(bytes, "é") == b"\xc3\xa9"
    assert decoded(object, {"a": 1}) == {"a": 1}
    assert decoded(Any, [1]) == [1]
    for message in (TextMessage("a"), BytesMessage(b"a"), Message(1)):
        assert decoder_for(Message)(message) is message
    assert isinstance(decoder_for(TextMessage)(TextMessage("a")), TextMessage)


WRONG: list[tuple[Any, object, str]] = [
    (Order, b'{"id": "x"}', "Expected `int`, got `str` - at `$.id`"),
    (Order, b"\xff", "is malformed"),
    (Order, "no json", "malformed"),
    (Order, b"", "truncated"),
    (Order, {"note": "x"}, "missing required field `id`"),
    (Order, None, "Expected `object`, got `null`"),
    (Annotated[int, msgspec.Meta(ge=1)], "0", ">= 1"),
    (str, b"\xff", "text is expected"),
    (str, 1, "text is expected, not a body of type int"),
    (bytes, {"a": 1}, "bytes is expected, not a body of type dict"),
    (TextMessage, b"a", "a TextMessage is expected, not a Message"),
    (Invoice, b'{"id": "x"}', "id: Input should be a valid integer"),
    (Invoice, "no json", "Invalid JSON"),
]


@pytest.mark.parametrize(("kind", "body", "text"), WRONG)
def test_what_is_wrong_with_a_body_is_said_in_a_line(kind: Any, body: object, text: str) -> None:
    with pytest.raises(UndecodableError) as raised:
        decoded(kind, body)
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) <= 500


class Unknown:
    pass


@pytest.mark.parametrize("kind", [Unknown, list[Unknown], "Order", dict[str, int] | dict[int, int]])
def test_types_that_nothing_can_make_are_refused(kind: Any) -> None:
    with pytest.raises(TypeError):
        decoder_for(kind)


SENT: list[tuple[object, str, Any]] = [
    (Order(1), '{"id":1,"note":""}', Order),
    ([Order(1)], '[{"id":1,"note":""}]', list[Order]),
    (Line("apples", 2), '{"item":"apples","count":2}', Line),
    ({"a": 1}, '{"a":1}', dict[str, int]),
    (7, "7", int),
    (Invoice(id=1), '{"id":1,"due":null}', Invoice),
    ([Parcel(1.5)], '[{"weight":1.5}]', list[Parcel]),
]


@pytest.mark.parametrize(("body", "text", "kind"), SENT)
def test_objects_are_sent_as_json_and_read_again(body: object, text: str, kind: Any) -> None:
    message = as_sent(body)
    assert (message.body, message.content_type) == (text, "application/json")
    assert decoder_for(kind)(message) == body


def test_text_bytes_and_messages_are_sent_as_they_are() -> None:
    message = Message(1)
    assert as_sent(message) is message
    assert isinstance(as_sent("a"), TextMessage)
    assert isinstance(as_sent(b"a"), BytesMessage)


@pytest.mark.parametrize("body", [Unknown(), [Unknown()], {(1, 2): 3}, {1j: 1}, 1j])
def test_what_json_has_no_form_for_is_not_sent(body: object) -> None:
    with pytest.raises(
        MessageFormatException, match=f"an object of type {type(body).__name__} can't be sent"
    ):
        as_sent(body)


def test_pydantic_is_not_imported_where_nobody_uses_it() -> None:
    program = (
        "import msgspec, sys\n"
        "from postroom.app import App\n"
        "class Order(msgspec.Struct):\n    id: int\n"
        "@App().subscriber('orders')\n"
        "async def handle(order: Order) -> None: ...\n"
        "others = ('pydantic', 'numpy', 'postroom.server', 'postroom.ledger')\n"
        "print([name for name in others if name in sys.modules])"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"

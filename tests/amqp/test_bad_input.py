"""Every row of the bad-input tables of docs/reference/wire-types.md gets the error that the page says."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from postroom.amqp.encoding.codec import decode_all
from postroom.amqp.errors import AmqpError, DecodeError, FramingError, ProtocolHeaderError
from postroom.amqp.frames.frames import FRAME_TYPE_SASL, FrameDecoder
from postroom.amqp.frames.sasl import parse_plain
from postroom.amqp.message.message_head import scan_head
from tests.amqp.encoded import decode_performative

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "wire-types.md"


def _frame(data: bytes) -> None:
    decoder = FrameDecoder(4096)
    decoder.feed(data)
    assert decoder.next()
    if decoder.frame_type == FRAME_TYPE_SASL:
        decoder.sasl_body()
    else:
        decoder.performative()


def _protocol_header(data: bytes) -> None:
    decoder = FrameDecoder(4096)
    decoder.feed(data)
    decoder.read_protocol_header()


READERS: dict[str, tuple[Callable[[bytes], object], tuple[type[AmqpError], ...]]] = {
    "Values": (decode_all, (DecodeError,)),
    "Performatives": (decode_performative, (DecodeError,)),
    "Frames": (_frame, (DecodeError, FramingError)),
    "Protocol headers": (_protocol_header, (ProtocolHeaderError,)),
    "Messages": (scan_head, (DecodeError,)),
    "SASL PLAIN responses": (parse_plain, (DecodeError,)),
}


def _rows() -> list[tuple[str, str, str]]:
    tables = PAGE.read_text(encoding="utf-8").split("## Bad input")[1].split("### ")[1:]
    rows = []
    for table in tables:
        name, _, text = table.partition("\n")
        for line in text.splitlines():
            if line.startswith(("| `", "| *none*")):
                data, _, error = (cell.strip() for cell in line.strip("|").split(" | "))
                rows.append((name, "" if data == "*none*" else re.sub(r"[` ]", "", data), error))
    return rows


ROWS = _rows()


def test_every_table_has_a_reader() -> None:
    assert {name for name, _, _ in ROWS} == set(READERS)


@pytest.mark.parametrize(("table", "data", "error"), ROWS, ids=[f"{row[0]}-{row[1]}" for row in ROWS])
def test_bad_input_gets_its_error(table: str, data: str, error: str) -> None:
    reader, errors = READERS[table]
    with pytest.raises(errors, match=re.escape(error)):
        reader(bytes.fromhex(data))

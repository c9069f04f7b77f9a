"""The bases of the composite types (part 1, section 1.4), and the one that everybody uses: Error."""

from dataclasses import dataclass
from typing import final

from librt.strings import BytesWriter

from postroom.amqp.encoding import descriptors as d
from postroom.amqp.encoding.field_reader import ABSENT, Fields
from postroom.amqp.encoding.field_writer import Composite, FieldWriter

__all__ = ["Composite", "Error", "Performative", "read_error"]


class Performative(Composite):
    """The operation that a frame carries (part 2, section 2.7)."""


@final
@dataclass
class Error(Composite):
    """Why something was closed, detached or rejected (part 2, section 2.8.14)."""

    condition: str
    description: str | None = None
    info: dict[object, object] | None = None

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.symbol(self.condition)
        f.string(self.description)
        f.symbol_map(self.info)
        f.finish(w, d.ERROR)


def read_error(f: Fields) -> Error | None:
    """The next field, an error; None when absent."""
    code = f.descriptor("error")
    if code == ABSENT:
        return None
    if code != d.ERROR:
        raise f.reader.fail(f"error: descriptor 0x{int(code):x} is not that of an error")
    fields = Fields(f.reader, "error")
    error = Error(
        fields.symbol("condition"), fields.optional_string("description"), fields.symbol_map("info")
    )
    fields.close()
    return error

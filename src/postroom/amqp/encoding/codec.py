"""Encodes and decodes any AMQP value: the plain face of :mod:`~postroom.amqp.encoding.writer` and
:mod:`~postroom.amqp.encoding.reader`.
"""

from librt.strings import BytesWriter

from postroom.amqp.encoding.reader import Reader
from postroom.amqp.encoding.writer import write_value


def encode(value: object) -> bytes:
    """The smallest AMQP encoding of ``value``, constructor included.

    EncodeError for a value without one. Which Python type becomes which AMQP type:
    :mod:`postroom.amqp.encoding.types`.
    """
    w = BytesWriter()
    write_value(w, value)
    return w.getvalue()


def decode(data: bytes, offset: int = 0) -> tuple[object, int]:
    """The value that begins at ``offset``, and the offset after it; DecodeError if there is none."""
    reader = Reader(data, offset, len(data))
    value = reader.value()
    return value, reader.pos


def decode_all(data: bytes) -> object:
    """The one value that ``data`` is; DecodeError if bytes are left over."""
    value, end = decode(data)
    if end != len(data):
        raise Reader(data, end, len(data)).fail(f"{len(data) - end} bytes left over after the value")
    return value

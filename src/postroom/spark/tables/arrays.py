"""Arrow columns as numpy arrays and back; nothing here takes a step of Python per row."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from postroom.ledger.format.layout import Array


@dataclass(frozen=True, slots=True)
class Codes:
    """A column of few texts: a number for each row, -1 for null, and the texts by number, which ascend."""

    numbers: Array
    texts: list[str]

    def among(self, *texts: str) -> Array:
        """Which rows have one of the texts."""
        wanted = np.zeros(len(self.texts) + 1, bool)  # the last one stands for null, -1
        for text in texts:
            if text in self.texts:
                wanted[self.texts.index(text)] = True
        found: Array = wanted[self.numbers]
        return found

    def array(self, where: Array | None = None) -> pa.Array:
        """As a dictionary array, null where not ``where``."""
        missing = self.numbers < 0
        if where is not None:
            missing = missing | ~where
        texts = pa.array(self.texts, pa.string())
        indices = pa.array(self.numbers, mask=missing if missing.any() else None)
        return pa.DictionaryArray.from_arrays(indices, texts)


def one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def codes(column: pa.Array | pa.ChunkedArray) -> Codes:
    """A column of texts as codes."""
    array = one(column)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    texts = array.dictionary.to_pylist()
    numbers = array.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    if len(set(texts)) == len(texts) and None not in texts and texts == sorted(texts):
        return Codes(numbers, texts)
    distinct = sorted({text for text in texts if text is not None})
    place = {text: number for number, text in enumerate(distinct)}
    renumbered = np.array([*(place.get(text, -1) for text in texts), -1], np.int32)
    return Codes(renumbered[numbers], distinct)


def numbers(column: pa.Array | pa.ChunkedArray, null: int = 0) -> Array:
    """A column of numbers, times (µs) or truths as an array of int64 (of bool for truths); nulls become
    ``null``."""
    array = one(column)
    if pa.types.is_boolean(array.type):
        found: Array = array.fill_null(bool(null)).to_numpy(zero_copy_only=False)
        return found
    if pa.types.is_timestamp(array.type):
        array = array.view(pa.int64())
    if array.null_count == len(array):
        return np.full(len(array), null, np.int64)
    filled = array.fill_null(null) if array.null_count else array
    plain: Array = filled.to_numpy(zero_copy_only=False)
    return plain.astype(np.int64, copy=False)


def valid(column: pa.Array | pa.ChunkedArray) -> Array:
    """Which rows are not null."""
    found: Array = pc.is_valid(one(column)).to_numpy(zero_copy_only=False)
    return found


def where(column: pa.Array | pa.ChunkedArray, keep: Array) -> pa.Array:
    """The column, null where not ``keep``."""
    array = one(column)
    if array.null_count == len(array) or keep.all():
        return array
    if pa.types.is_dictionary(array.type):
        return codes(array).array(keep)
    if array.offset == 0 and (pa.types.is_integer(array.type) or pa.types.is_timestamp(array.type)):
        shown = keep & valid(array) if array.null_count else keep
        bits = pa.py_buffer(np.packbits(shown, bitorder="little"))
        return pa.Array.from_buffers(array.type, len(array), [bits, array.buffers()[1]])  # no value is copied
    return pc.if_else(pa.array(keep), array, pa.scalar(None, array.type))


def of_kind(values: Array, kind: pa.DataType, mask: Array | None = None) -> pa.Array:
    """Numbers as an Arrow array of a number or timestamp type; null where ``mask``."""
    hidden = None if mask is None or not mask.any() else mask
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64(), mask=hidden).view(kind)
    if values.dtype != kind.to_pandas_dtype():
        values = values.astype(kind.to_pandas_dtype())
    return pa.array(values, kind, mask=hidden)

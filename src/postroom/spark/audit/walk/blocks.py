"""Rows on their way from task to task, and while Spark keeps them: as blocks of columns, which Spark carries
as they are. It takes a step for each block, never for a row, until a query asks for rows."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.spark.data_source.portions import portions

Batches = Iterator[pa.RecordBatch]

BLOCKS: Final = pa.schema([("kind", pa.int32()), ("part", pa.int32()), ("block", pa.binary())])
"""What rows these are, the part that they belong to, and some of them: a stream of Arrow with the columns
that have a value."""

BLOCK_COLUMNS: Final = "kind int, part int, block binary"
"""The same in Spark's words."""

BLOCK_ROWS: Final = 50_000
"""So many rows are in a block at most where they aren't cut by part."""

BATCH_BYTES: Final = 4 << 20
"""So many bytes of blocks go to Spark at a time, or one block."""

Block = tuple[int, int, pa.Buffer]


def batches_of(blocks: Iterator[Block]) -> Batches:
    """Blocks as Spark takes them."""
    for some in portions(blocks, lambda one: int(one[2].size), BATCH_BYTES):
        kinds, parts, made = zip(*some, strict=True)
        whole = pa.array([one.to_pybytes() for one in made], pa.binary())
        numbers = [pa.array(each, pa.int32()) for each in (kinds, parts)]
        yield pa.RecordBatch.from_arrays([*numbers, whole], schema=BLOCKS)


def whole(kind: int, rows: pa.Table) -> Iterator[Block]:
    """Rows that stay where they are."""
    for start in range(0, len(rows), BLOCK_ROWS):
        yield kind, 0, _encoded(rows.slice(start, BLOCK_ROWS))


def cut(kind: int, rows: pa.Table, part: Array, parts: int) -> Iterator[Block]:
    """A block for each part that has any of the rows; ``part``: that of each row."""
    narrow = part.astype(np.uint16 if parts < 1 << 16 else np.int64)  # sorted in one go
    ordered = rows.take(pa.array(np.argsort(narrow, kind="stable"))).combine_chunks()
    start = 0
    for number, end in enumerate(np.cumsum(np.bincount(part, minlength=parts)).tolist()):
        if end > start:
            yield kind, number, _encoded(ordered.slice(start, end - start))
        start = end


def _encoded(rows: pa.Table) -> pa.Buffer:
    has_values = [name for name in rows.column_names if rows.column(name).null_count < len(rows)]
    some = rows.select(has_values)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, some.schema) as stream:
        stream.write_table(some)
    return sink.getvalue()


def tables_in(batches: Batches, schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of each block, in all columns of the schema."""
    for batch in batches:
        for block in batch.column(batch.schema.get_field_index("block")):
            with pa.ipc.open_stream(block.as_buffer()) as stream:
                some = stream.read_all()
            columns = [
                some.column(field.name)
                if field.name in some.column_names
                else pa.nulls(len(some), field.type)
                for field in schema
            ]
            yield pa.Table.from_arrays(columns, schema=schema)


# --- parts ----------------------------------------------------------------------------------------

_MIX: Final = [np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)]
_HALF: Final = np.uint64(32)


def mixed(*columns: Array) -> Array:
    """A number for each row: the same wherever the same values are read, and else hardly ever."""
    found = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        found = (found ^ column.astype(np.uint64)) * _MIX[0]
        found ^= found >> _HALF
    return found * _MIX[1]


def part_of(numbers: Array, parts: int) -> Array:
    """The part of each row, of its number by `mixed`."""
    return ((numbers >> _HALF) % np.uint64(parts)).astype(np.int64)

"""Rows → AMQP messages: what a sink sends. The columns are those of `MESSAGES_STRUCT`, as many of them as
there are; others are passed over.
"""

from collections.abc import Sequence

import pyarrow as pa


def encode(batch: pa.RecordBatch) -> Sequence[bytes]:
    """The messages of a batch's rows, in their order, as the bytes of their sections.

    Raises ``RowInvalid`` that says which row and column has no meaning.
    """
    raise NotImplementedError

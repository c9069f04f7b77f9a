"""Messages that a reader of bodies has found, as Arrow arrays."""

import numpy as np
import pyarrow as pa

from postroom.ledger.body_reader import BodyState, FoundMessages
from postroom.spark.places import Messages


def messages_of(found: FoundMessages) -> Messages:
    """Nothing is copied."""
    missing = found.states != BodyState.PRESENT
    missing[list(found.errors)] = True
    validity = pa.py_buffer(np.packbits(~missing, bitorder="little")) if missing.any() else None
    buffers = [validity, pa.py_buffer(found.offsets), pa.py_buffer(found.bodies)]
    sections = pa.Array.from_buffers(pa.large_binary(), len(missing), buffers)
    return Messages(found.found, found.arrivals, found.names, sections, found.states, found.errors)

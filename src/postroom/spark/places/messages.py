"""Messages that a reader of bodies has found, as Spark's side takes them."""

import numpy as np

from postroom.ledger.reading.body_reader import FoundMessages
from postroom.spark.places import Messages


def messages_of(found: FoundMessages) -> Messages:
    """Nothing is copied."""
    heap = np.frombuffer(found.bodies, np.uint8)
    own = found.found, found.arrivals, found.names, heap, found.starts, found.ends
    return Messages(*own, found.states, found.errors)

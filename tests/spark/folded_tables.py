"""Tables that are folded, and events to fold."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa

from postroom.spark.tables import DEFINITIONS
from tests.spark.event_ranges import events_of
from tests.spark.random_lives import Lives

FOLDED = [
    definition
    for definition in DEFINITIONS.values()
    if definition.source == "events" and definition.is_done is not None
]


STEPS = 30


def lived(random: Random) -> pa.Table:
    """Events of a random ledger; at least one."""
    with TemporaryDirectory() as folder:
        lives = Lives(Path(folder), random)
        lives.maker.put(lives.queues[0])
        return events_of(lives.run(STEPS))

"""Annotations that the queue manager adds to an entry that shares its parent's body: why it is a dead letter.

They stand in the ledger beside the entry, as long as it lives, so that they are there after a restart.
"""

import json
from typing import Final, cast, final

from mypy_extensions import i64

from postroom.ledger.format.records import RecordType
from postroom.manager.headers.dead_letter_header import DEAD_LETTER, header_of
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.destination import Annotation, Destination
from postroom.manager.kernel.entry import Entry
from postroom.model import numbers as n

_ANNOTATED: Final = int(RecordType.ENTRY_ANNOTATED)
_DROPPED: Final = int(RecordType.ANNOTATIONS_DROPPED)

MAX_ANNOTATED: Final = 10_000
"""Entries of the queue manager whose annotations survive a restart; those of more are in memory only."""


@final
class AnnotatedEntries:
    """Entries of a queue manager with annotations beside their bodies in the ledger."""

    def __init__(self) -> None:
        self.count: i64 = 0


def annotated_entries_of(core: Core) -> AnnotatedEntries:
    """Those of a queue manager."""
    return cast(AnnotatedEntries, core.state(AnnotatedEntries))


def annotate(core: Core, entry: Entry, annotations: dict[str, object] | None) -> None:
    """Give ``entry``, which has just been written, these annotations."""
    entry.annotations = annotations
    if (
        annotations is None
        or entry.flags & n.FLAG_BODY_STORED == 0
        or annotated_entries_of(core).count >= MAX_ANNOTATED
    ):
        return
    kept = {name: value for name, value in annotations.items() if isinstance(value, str | bool | int | dict)}
    id = core.holders.ids.take()
    record = {"serial": int(entry.serial), "queue": int(entry.queue.id), "annotations": kept}
    detail = json.dumps(record, ensure_ascii=False).encode("utf-8", "replace")
    core.ledger.record(_ANNOTATED, 0, 0, id, 0, 0, detail)
    _keep(core, entry.queue, entry.serial, Annotation(id, annotations))


def restore(core: Core, queue: Destination, serial: i64, id: i64, values: dict[str, object]) -> None:
    """What the ledger has of an entry that lives."""
    header = header_of(values.get(DEAD_LETTER))
    if header is not None:
        values[DEAD_LETTER] = header.annotation()
    _keep(core, queue, serial, Annotation(id, values))


def _keep(core: Core, queue: Destination, serial: i64, annotation: Annotation) -> None:
    if queue.annotated is None:
        queue.annotated = {}
    queue.annotated[int(serial)] = annotation
    annotated_entries_of(core).count += 1


def drop(core: Core, queue: Destination, serial: i64) -> None:
    """The entry has ended."""
    if queue.annotated is None:
        return
    annotation = queue.annotated.pop(int(serial), None)
    if annotation is not None:
        annotated_entries_of(core).count -= 1
        core.ledger.record(_DROPPED, 0, 0, annotation.id, 0, 0, b"")
    if not queue.annotated:
        queue.annotated = None

"""What a file of bodies keeps of its index while several threads load it."""

from pathlib import Path
from typing import Any, cast

import pytest

from postroom.ledger.format.file_names import PackedName
from postroom.ledger.storage import body_file
from postroom.ledger.storage.body_file import PackedBodies
from postroom.ledger.storage.disk import RealDisk
from postroom.ledger.storage.packed_bodies import PackedSpan


def test_an_index_that_another_replaces_is_found_no_more_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end unmaps a file, and hands over the interpreter to who asks for the index."""
    disk = RealDisk(tmp_path)
    bodies = cast("Any", PackedBodies(disk, PackedName(1, 1, 0), PackedSpan(1, 2, 0, 0, 0)))
    found_at_the_end: list[object] = []

    class Index:
        def __init__(self, name: str) -> None:
            self.name = name

        def __del__(self) -> None:
            if self.name == "first":
                found_at_the_end.append(bodies.index().name)

    loads: list[str] = []

    def load(*_: object) -> Index:
        loads.append("")
        if len(loads) == 1:
            bodies.index()  # as another thread does meanwhile
            return Index("second")
        return Index("first")

    monkeypatch.setattr(body_file, "load_packed_index", load)
    assert bodies.index().name == "second"
    assert found_at_the_end == ["second"]

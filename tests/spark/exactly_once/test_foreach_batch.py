"""What the documentation's table says of sinks that append, and of those that go by batch ids."""

from collections.abc import Callable
from pathlib import Path

import pytest

from postroom.spark.consume.errors import CheckpointReplaced
from tests.spark.exactly_once.promises import EXACT, FAILURES, LOSS, Play, consume, promised, tap
from tests.spark.played_queries import Appending, KeyedByBatch, Station

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(300)]

Made = Callable[[Station, Path], Play]

ROWS: dict[tuple[str, str], Made] = {
    ("tap", "appends"): lambda one, folder: tap(one, Appending(one), folder),
    ("tap", "goes by batch id"): lambda one, folder: tap(one, KeyedByBatch(one), folder),
    ("consume, `call`", "appends"): lambda one, folder: consume(
        one, Appending(one, confirms=True), folder, "call"
    ),
    ("consume, `call`", "goes by batch id"): lambda one, folder: consume(
        one, KeyedByBatch(one, confirms=True), folder, "call"
    ),
    ("consume, `spark`", "appends"): lambda one, folder: consume(one, Appending(one), folder, "spark"),
    ("consume, `spark`", "goes by batch id"): lambda one, folder: consume(
        one, KeyedByBatch(one), folder, "spark"
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("row", ROWS, ids=" ".join)
def test_each_cell_is_what_the_page_says(
    one: Station, row: tuple[str, str], failure: str, tmp_path: Path
) -> None:
    play = ROWS[row](one, tmp_path / "checkpoint")
    assert play.fail(failure) == promised(*row)[failure]
    if row[0].startswith("consume"):
        assert (one.on_queue(), one.state()["held"]) == (0, 0), "taken from the queue all the same"


@pytest.mark.parametrize("confirm", ["call", "spark"])
def test_without_being_told_a_new_checkpoint_takes_nothing(
    one: Station, confirm: str, tmp_path: Path
) -> None:
    play = consume(one, Appending(one, confirm == "call"), tmp_path / "checkpoint", confirm)
    play.query.options = dict(play.query.options) | {"onNewCheckpoint": "fail"}  # type: ignore[misc]
    one.send(5)
    assert play.query.run()
    one.send(5)
    play.lose_all()
    with pytest.raises(CheckpointReplaced) as raised:
        play.query.run()
    assert raised.value.confirmed == one.state()["confirmed"]
    assert play.outcome() == EXACT
    assert LOSS not in promised("consume, `call`", "appends").values()

"""A task that hangs is run a second time on another host; what the first has sent counts for nothing."""

from typing import Final

from tests.sparkkills.chains import WAYS, check, prepare
from tests.sparkkills.points import Kill, Point, Victim
from tests.sparkkills.stage import WINDOW, Stage
from tests.sparkkills.standalone import standalone

BATCHES: Final = 3


def play_speculation(stage: Stage, queue: str, point: Point) -> None:
    """The first task that reaches the point hangs there."""
    way = WAYS["tap-enrich"]
    prepare(stage, way, queue)
    stage.send(queue, BATCHES * WINDOW)
    with standalone(stage.folder / f"{queue}-cluster") as master:
        stage.play(way.job(stage, queue, master), [Kill(point, Victim.STALL)])
    check(stage, way, queue)

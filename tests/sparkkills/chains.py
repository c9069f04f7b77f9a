"""What is played: for each way through Spark the points that it passes, and for each victim a chain of kills,
one after the other in later and later batches."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.sparkkills.job import TABLE_APP, Job
from tests.sparkkills.points import Kill, Point, Victim
from tests.sparkkills.stage import CLUSTER, LOCAL, WINDOW, Stage, in_files, in_table

P = Point

OF_SUBSCRIPTION: Final = (P.BEFORE_REGISTER, P.AFTER_READ, P.BEFORE_CONFIRM, P.AFTER_CONFIRM)
OF_SINK: Final = (
    P.BEFORE_BRANCH_DURABLE,
    P.AFTER_BRANCH_DURABLE,
    P.BEFORE_DECISION,
    P.AFTER_DECISION,
    P.BEFORE_SPARK_COMMIT_LOG,
)
OF_TABLE: Final = (P.AFTER_TABLE_COMMIT, P.BEFORE_SPARK_COMMIT_LOG)

VICTIMS: Final = (Victim.DRIVER, Victim.BROKER, Victim.EXECUTOR)


@dataclass(frozen=True, slots=True)
class Way:
    """From a queue through Spark to somewhere."""

    name: str
    kind: str
    points: tuple[Point, ...]
    """The first that is passed stands first."""
    confirm: str = ""
    """None: the queue is tapped."""

    def job(
        self, stage: Stage, queue: str, master: str = LOCAL, takes_over: bool = False, **more: object
    ) -> Job:
        """The job of a queue that is prepared; `takes_over`: with a new checkpoint."""
        if self.confirm:
            options = {"onNewCheckpoint": "confirmed"} if takes_over else {}
        else:
            options = {"maxRows": str(WINDOW), "startingPosition": "earliest"}
        table = f"{stage.folder}/{queue}/table"
        return stage.job(
            self.kind,
            queue,
            master=master,
            subscription=queue if self.confirm else "",
            target=target_of(queue) if self.kind == "sink" else "",
            confirm=f"table:{table}#{TABLE_APP}" if self.confirm == "table" else self.confirm,
            options=options,
            **more,
        )


def target_of(queue: str) -> str:
    """Where results of a queue go."""
    return f"{queue}-out"


WAYS: Final = {
    way.name: way
    for way in (
        Way("enrich", "sink", (*OF_SUBSCRIPTION, *OF_SINK), "spark"),
        Way("tap-enrich", "sink", (P.AFTER_READ, *OF_SINK)),
        Way("table", "table", (*OF_SUBSCRIPTION, *OF_TABLE), "table"),
        Way("call", "table", (*OF_SUBSCRIPTION, *OF_TABLE), "call"),
        Way("spark", "files", (*OF_SUBSCRIPTION, *OF_TABLE), "spark"),
        Way("tap", "table", (P.AFTER_READ, *OF_TABLE)),
    )
}


def chain(way: Way, victim: Victim) -> list[Kill]:
    """Every point of a way, once."""
    return [Kill(point, victim) for point in way.points]


def master_of(kills: list[Kill]) -> str:
    """Executors are processes of their own only in a cluster."""
    return CLUSTER if any(kill.victim is Victim.EXECUTOR for kill in kills) else LOCAL


def prepare(stage: Stage, way: Way, queue: str) -> None:
    """The queues and the subscription of a way."""
    stage.prepare(queue, subscribe=bool(way.confirm), target=target_of(queue) if way.kind == "sink" else "")


def play(stage: Stage, way: Way, queue: str, kills: list[Kill]) -> int:
    """Work off messages for a batch a kill and a few more; returns how often the job was started. Raises
    ``AssertionError``, ``PlayFailed``."""
    prepare(stage, way, queue)
    stage.send(queue, WINDOW * (len(kills) + 2))
    starts = stage.play(way.job(stage, queue, master_of(kills)), kills)
    check(stage, way, queue)
    return starts


RESULTS: Final[dict[str, Callable[[Job], list[str]]]] = {"table": in_table, "files": in_files}


def check(stage: Stage, way: Way, queue: str) -> None:
    """Every message is there, once; nothing of it is left, nor held."""
    job = way.job(stage, queue)
    if way.kind == "sink":
        assert sorted(stage.received(job.target)) == sorted(stage.sent(queue))
    else:
        assert sorted(RESULTS[way.kind](job)) == sorted(stage.sent(queue))
    if way.confirm:
        assert stage.subscription(queue)["held"] == 0
        assert stage.received(queue) == []


# --- losses of the checkpoint ---------------------------------------------------------------------

NEWEST: Final = "newest"
ALL: Final = "all"


def lose(job: Job, what: str) -> None:
    """The checkpoint's newest entry, as in a power cut, or all of it."""
    checkpoint = Path(job.checkpoint)
    if what == ALL:
        shutil.rmtree(checkpoint)
        return
    for log in ("offsets", "commits"):
        entries = [path for path in (checkpoint / log).iterdir() if path.name.isdigit()]
        newest = max(entries, key=lambda path: int(path.name))
        newest.unlink()
        newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)


def play_loss(stage: Stage, way: Way, queue: str, what: str, kill: Point) -> None:
    """The driver dies at a point of its second batch or later, the checkpoint is lost, the queue grows, and
    the job goes on as the documentation says. A sink records positions."""
    prepare(stage, way, queue)
    above = {"abovePosition": "position"} if way.kind == "sink" else {}
    kills = [Kill(Point.AFTER_READ, Victim.BROKER), Kill(kill, Victim.DRIVER)]
    stage.send(queue, 4 * WINDOW)
    job = way.job(stage, queue, sink_options=above)
    stage.play(job, kills, starts_again=False)
    lose(job, what)
    stage.send(queue, 2 * WINDOW)
    stage.play(way.job(stage, queue, takes_over=what == ALL, sink_options=above))
    check(stage, way, queue)

"""A broker, jobs that are killed as a plan says and started again until they end by themselves, and what must
be true afterwards."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow.parquet as pq
from deltalake import DeltaTable
from tools.peers import Postroom

from postroom.client import ConnectionFactory, Message
from tests.crash.kills import broker_in, source_of_this_build, url_of
from tests.sparkkills.job import Job
from tests.sparkkills.points import FOLDER, Kill, Plan, Victim

QUEUE_TYPE: Final = "postroom.queue"
SUBSCRIPTION_TYPE: Final = "postroom.spark-subscription"
WINDOW: Final = 40
LOCAL: Final = "local[2]"
CLUSTER: Final = "local-cluster[2,1,900]"
POLL_S: Final = 0.02
PLAY_S: Final = 400.0
KILLED: Final = -9


class PlayFailed(Exception):
    """A job ended otherwise than planned, or not at all."""


class Stage:
    """One broker in a folder, for many plays, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        self.broker: Final[Postroom] = broker_in(folder / "broker", source_of_this_build())
        self._sent: Counter[str] = Counter()
        self._plays = 0
        self.broker_kills = 0

    def __enter__(self) -> "Stage":
        self.broker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.kill()

    # --- clients

    @property
    def url(self) -> str:
        return url_of(self.broker)

    def prepare(self, queue: str, subscribe: bool = True, window: int = WINDOW, target: str = "") -> None:
        """A queue with a Spark subscription of its name, and one where results go."""
        with ConnectionFactory(self.url).create_connection() as connection:
            management = connection.create_management()
            for name in filter(None, (queue, target)):
                management.create(QUEUE_TYPE, name)
            if subscribe:
                management.create(SUBSCRIPTION_TYPE, queue, {"queue": queue, "window": window})

    def send(self, queue: str, count: int) -> None:
        """So many more messages, numbered on."""
        first = self._sent[queue]
        self._sent[queue] += count
        with ConnectionFactory(self.url).create_connection() as connection:
            producer = connection.create_session().create_producer(queue)
            texts = [f"{queue} {number}" for number in range(first, first + count)]
            producer.send_all(Message(text, message_id=text) for text in texts)

    def sent(self, queue: str) -> list[str]:
        """All that was ever sent to a queue."""
        return [f"{queue} {number}" for number in range(self._sent[queue])]

    def received(self, queue: str) -> list[str]:
        """What is in a queue; it is empty then."""
        found = []
        with ConnectionFactory(self.url).create_connection() as connection:
            consumer = connection.create_session().create_consumer(queue, prefetch=100)
            while (message := consumer.receive_no_wait()) is not None:
                found.append(str(message.body))
        return found

    def subscription(self, name: str) -> Mapping[str, Any]:
        """How a Spark subscription stands."""
        with ConnectionFactory(self.url).create_connection() as connection:
            management = connection.create_management()
            return dict(management.request("READ", kind=SUBSCRIPTION_TYPE, name=name).attributes())

    # --- jobs

    def job(self, kind: str, queue: str, **more: Any) -> Job:
        """A job of this stage's broker; its checkpoint and table are kept under the queue's name."""
        fields = {"master": LOCAL, **more}
        return Job(
            kind,
            broker=self.url,
            data=str(self.broker.data),
            folder=str(self.folder / queue),
            queue=queue,
            **fields,
        )

    def play(self, job: Job, kills: Iterable[Kill] = (), starts_again: bool = True) -> int:
        """Run a job, with the kills in that order, until it ends well; returns how often it was started.

        Without `starts_again`: until its driver is killed. Raises ``PlayFailed``: it failed, it took too
        long, or not all kills came about.
        """
        self._plays += 1
        plan = Plan(self.folder / f"play-{self._plays:03}")
        plan.lay_out(list(kills))
        file = plan.folder / "job.json"
        file.write_bytes(msgspec.json.encode(job))
        starts = 0
        while True:
            starts += 1
            code = self._run(plan, file)
            if code == 0 or (code == KILLED and not starts_again):
                break
            if code != KILLED:
                raise PlayFailed(f"{job.kind} on {job.queue}: exit code {code}\n{_end_of(plan)}")
        if plan.left():
            raise PlayFailed(f"never came about: {', '.join(map(str, plan.left()))}")
        return starts

    def _run(self, plan: Plan, file: Path) -> int:
        self._note_broker(plan)
        with (plan.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.sparkkills.worker", str(file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_environment(**{FOLDER: str(plan.folder)}),
            )
            return self._watched(process, plan)

    def _watched(self, process: "subprocess.Popen[bytes]", plan: Plan) -> int:
        """Wait for its end; a broker that is killed meanwhile is started again."""
        end_s = time.monotonic() + PLAY_S
        while process.poll() is None:
            if self.broker.process is not None and self.broker.process.poll() is not None:
                self.broker_kills += 1
                self.broker.kill()
                self.broker.start()
                self._note_broker(plan)
            if time.monotonic() > end_s:
                process.kill()
                process.wait()
                raise PlayFailed(f"not done after {PLAY_S:.0f} s\n{_end_of(plan)}")
            time.sleep(POLL_S)
        return process.returncode

    def _note_broker(self, plan: Plan) -> None:
        plan.note(Victim.BROKER, self.broker.pid)


def _end_of(plan: Plan) -> str:
    lines = (plan.folder / "log").read_text(errors="replace").splitlines()
    return "\n".join(lines[-60:])


def audited(stage: Stage) -> str:
    """What the audit has to say against the ledger of a broker that has ended; empty if it is clean."""
    command = [sys.executable, "-m", "postroom.cli", "audit", "--data", str(stage.broker.data)]
    command += ["--out", str(stage.folder / "audit")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
    return "" if done.returncode == 0 else f"audit, exit code {done.returncode}:\n{done.stdout}{done.stderr}"


def _environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join(path for path in sys.path if path)
    return {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore", **more}


# --- what a table has -----------------------------------------------------------------------------


def in_table(job: Job) -> list[str]:
    """The texts in a job's Delta table, in the order of their positions."""
    rows = DeltaTable(job.table).to_pyarrow_table(columns=["position", "ordinal", "text"])
    return _in_order(rows.to_pylist())


def in_files(job: Job) -> list[str]:
    """The texts in a job's files."""
    files = sorted(Path(job.table).rglob("*.parquet"))
    return _in_order([row for file in files for row in pq.ParquetFile(file).read().to_pylist()])


def _in_order(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [row["text"] for row in sorted(rows, key=lambda row: (row["position"], row["ordinal"]))]

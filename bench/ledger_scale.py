"""The ledger at scale: disk, restart time and memory when millions of messages pass or wait.

Three runs, on the ledger alone (no sockets, no queue manager):

- *passing*: N messages arrive, are acquired and confirmed; one in a thousand is never consumed, and one
  transaction that put messages at the beginning stays open throughout. History is not kept. Shown: the most
  disk ever used against the bound (3 × live bytes + two files), and the restart time after a tenth, a half
  and all of it.
- *waiting*: N messages of 100 bytes with 36-byte ids and mixed priorities wait. Shown: restart time and
  anonymous memory of a process that has recovered them.
- *folding*: the rate at which history without checkpoints is recovered.

`python bench/ledger_scale.py [--messages N] [--quick] [--json] [--folder FOLDER]`
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from zlib import crc32

from postroom.ledger.format.block import BlockBuilder
from postroom.ledger.format.entry_records import Arrival, EntryEvent
from postroom.ledger.format.records import RecordType
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.model.codes import Event, HolderKind, IdType, Outcome, State
from postroom.model.message import RecordedProperties

BODY_BYTES = 100
MESSAGES_PER_BLOCK = 1000
STRAGGLER_EVERY = 1000
TRANSACTION_MESSAGES = 100
WINDOW = 10_000
"""Messages between arrival and confirmation."""

BEHIND_PAUSE_S = 0.01
RECORD_BYTES = 128
QUICK_DIVISOR = 50
FULL_MESSAGES = 10_000_000
ACQUIRE = EntryEvent(Event.ACQUIRE, State.AVAILABLE, State.GET_UNCONFIRMED, HolderKind.CONSUMER)
CONFIRM = EntryEvent(
    Event.CONFIRM, State.GET_UNCONFIRMED, State.DELETED, HolderKind.CONSUMER, Outcome.CONSUMED
)
PASSING_FILE_BYTES = 64 << 20


class Writer:
    """Puts messages into the ledger and counts what is live."""

    def __init__(self, ledger: Ledger, keeps_up: bool = True) -> None:
        """``keeps_up``: wait, as the broker does, while the background work is outrun."""
        self.ledger = ledger
        self.keeps_up = keeps_up
        self.builder: BlockBuilder = ledger.builder
        self.body = os.urandom(BODY_BYTES)
        self.crc = crc32(self.body)
        self.waiting: deque[int] = deque()
        self.count = 0
        self.live_messages = 0
        self.peak_disk_bytes = 0
        self.peak_excess = 0.0

    def define(self) -> None:
        self.builder.record(RecordType.QUEUE_DEFINED, 0, 1, 0, 0, 0, b'{"name": "q"}')

    def put(self, state: State = State.AVAILABLE, kind: int = 0, holder: int = 0) -> int:
        self.count += 1
        event = Event.PUT_HELD if holder else Event.PUT
        name = b"ID:1f0c6a52-%011d-aaaa-bbbbbbbb" % self.count
        self.live_messages += 1
        properties = RecordedProperties()
        properties.message_id, properties.message_id_type = name, IdType.STRING
        arrival = Arrival(1, event, state, properties, priority=self.count % 10, flags=1, expiry_us=0)
        arrival.holder_kind, arrival.holder = kind, holder
        arrival.producer = 5
        arrival.body, arrival.body_crc = self.body, self.crc
        return self.builder.arrival(arrival)

    def consume(self, serial: int) -> None:
        self.builder.entry_event(serial, 1, 9, ACQUIRE)
        self.builder.entry_event(serial, 1, 9, CONFIRM)
        self.live_messages -= 1

    def block(self, consume: bool) -> None:
        """One group commit, written while the next is encoded."""
        self.builder.set_time(time.time_ns() // 1000)
        for _ in range(MESSAGES_PER_BLOCK):
            serial = self.put()
            if consume and self.count % STRAGGLER_EVERY:
                self.waiting.append(serial)
                if len(self.waiting) > WINDOW:
                    self.consume(self.waiting.popleft())
        self.ledger.wait()
        while self.keeps_up and self.ledger.behind:
            time.sleep(BEHIND_PAUSE_S)
        self.ledger.submit()

    def live_bytes(self) -> int:
        """Bodies, ids and arrival records of what is live."""
        return self.live_messages * (BODY_BYTES + 36 + RECORD_BYTES)

    def measure_disk(self, folder: Path, file_bytes: int) -> None:
        used = disk_bytes(folder)
        self.peak_disk_bytes = max(self.peak_disk_bytes, used)
        bound = 3 * self.live_bytes() + 2 * file_bytes
        self.peak_excess = max(self.peak_excess, used / bound)


def disk_bytes(folder: Path) -> int:
    """Blocks really in use, reserves included; files may vanish while they are counted."""
    total = 0
    for entry in os.scandir(folder):
        try:
            total += entry.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total


def restart(folder: Path) -> dict[str, float]:
    """Recover in a process of its own; its report."""
    command = [sys.executable, __file__, "--restart", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    report: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return report


def restart_here(folder: Path) -> None:
    """The child of `restart`: open, look at memory, close without a trace."""
    start, start_cpu = time.perf_counter(), time.process_time()
    ledger = Ledger.open(folder, LedgerOptions(reserve_bytes=0), time.time_ns() // 1000, maintenance="manual")
    took_s = time.perf_counter() - start
    first = [entry for _, piece in ledger.recovered.backlog[:1] for entry in [piece[:40]]]
    report = {
        "restart_s": took_s,
        "restart_cpu_s": time.process_time() - start_cpu,
        "rss_anon_bytes": anonymous_bytes("RssAnon"),
        "entries": sum(len(piece) // 40 for _, piece in ledger.recovered.backlog)
        + len(ledger.recovered.explicit),
        "records_folded": ledger.recovered.report.records_folded,
        "has_first": len(first),
    }
    ledger.close()
    print(json.dumps(report))


def anonymous_bytes(field: str) -> int:
    """A memory field of /proc/self/status in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def passing(folder: Path, messages: int) -> dict[str, float]:
    """Messages pass by; see the module."""
    options = LedgerOptions(journal_file_bytes=PASSING_FILE_BYTES, reserve_bytes=8 << 20, retention_bytes=0)
    ledger = Ledger.open(folder, options, time.time_ns() // 1000)
    writer = Writer(ledger)
    writer.define()
    writer.builder.record(RecordType.HOLDER_OPENED, 0, 0, 3, HolderKind.LOCAL_TRANSACTION, 0, b"{}")
    for _ in range(TRANSACTION_MESSAGES):
        writer.put(State.PUT_UNCONFIRMED, HolderKind.LOCAL_TRANSACTION, 3)
    report: dict[str, float] = {}
    start = time.perf_counter()
    for share in (10, 50, 100):
        while writer.count < messages * share // 100:
            writer.block(consume=True)
            if writer.count % (MESSAGES_PER_BLOCK * 10) < MESSAGES_PER_BLOCK:
                writer.measure_disk(folder, options.journal_file_bytes)
        ledger.flush()
        copy = folder.with_name(f"{folder.name}-{share}")
        copy_settled(folder, copy)
        report[f"restart_at_{share}_percent_s"] = restart(copy)["restart_s"]
        shutil.rmtree(copy)
    report["messages_per_s"] = messages / (time.perf_counter() - start)
    report["live_bytes"] = writer.live_bytes()
    report["peak_disk_bytes"] = writer.peak_disk_bytes
    report["peak_disk_share_of_bound"] = writer.peak_excess
    ledger.close()
    return report


def copy_settled(folder: Path, copy: Path) -> None:
    """A copy such as a killed process leaves it; retried when files vanish while it is made."""
    for _ in range(10):
        shutil.rmtree(copy, ignore_errors=True)
        try:
            shutil.copytree(folder, copy)
            return
        except shutil.Error:
            continue
    raise SystemExit("the ledger's files change too fast to be copied")


def waiting(folder: Path, messages: int) -> dict[str, float]:
    """Messages wait; see the module."""
    ledger = Ledger.open(folder, LedgerOptions(), time.time_ns() // 1000)
    writer = Writer(ledger)
    writer.define()
    start = time.perf_counter()
    while writer.count < messages:
        writer.block(consume=False)
    ledger.flush()
    took_s = time.perf_counter() - start
    ledger.close()
    with_checkpoint = restart(folder)
    for checkpoint in folder.glob("*.checkpoint"):
        checkpoint.unlink()
    whole = restart(folder)
    return {
        "written_per_s": messages / took_s,
        "restart_s": with_checkpoint["restart_s"],
        "restart_cpu_s": with_checkpoint["restart_cpu_s"],
        "restart_without_checkpoint_s": whole["restart_s"],
        "rss_anon_bytes": max(with_checkpoint["rss_anon_bytes"], whole["rss_anon_bytes"]),
        "entries": whole["entries"],
    }


def folding(folder: Path, messages: int) -> dict[str, float]:
    """The rate of recovery over history that no checkpoint covers: arrivals, acquisitions, confirmations."""
    ledger = Ledger.open(folder, LedgerOptions(), time.time_ns() // 1000, maintenance="manual")
    writer = Writer(ledger, keeps_up=False)
    writer.define()
    while writer.count < messages:
        writer.block(consume=True)
    ledger.close()
    report = restart(folder)  # seals the last journals
    report = restart(folder)
    return {
        "recovery_events": report["records_folded"],
        "recovery_s": report["restart_s"],
        "recovery_events_per_s": report["records_folded"] / report["restart_s"],
        "recovery_events_per_cpu_s": report["records_folded"] / report["restart_cpu_s"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=FULL_MESSAGES)
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the messages")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument(
        "--folder", type=Path, help="where to write (several GB); default: a temporary folder"
    )
    parser.add_argument("--only", choices=["passing", "waiting", "folding"])
    parser.add_argument("--restart", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.restart is not None:
        restart_here(options.restart)
        return
    messages = options.messages // (QUICK_DIVISOR if options.quick else 1)
    report: dict[str, float] = {"messages": messages}
    with tempfile.TemporaryDirectory(dir=options.folder) as base:
        for name, part, count in (
            ("passing", passing, messages),
            ("waiting", waiting, messages),
            ("folding", folding, messages // 3),
        ):
            if options.only not in (None, name):
                continue
            for key, value in part(Path(base) / name, count).items():
                report[key if key.startswith("recovery") else f"{name}_{key}"] = value
            shutil.rmtree(Path(base) / name)
    if options.json:
        print(json.dumps(report))
        return
    for key, value in report.items():
        print(f"{key:42} {value:,.2f}")


if __name__ == "__main__":
    main()

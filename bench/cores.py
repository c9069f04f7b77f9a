"""What one queue manager makes of a machine's cores, and what more of them would give.

``python -m bench.cores`` with PYTHONPATH=build/compiled, or as a section of ``python -m bench``: durable
messages of 1 KB in, out and both at once, with the processor time of each thread of the broker; of the event
loop's, where it goes; what handing decoded messages to another process costs (`bench.hand_over`); what the
machine allows; and from these figures, by `bench.cores_model`, what bounds the broker on 2, 4 and 16 cores:
as it is, with connections in processes of their own, as several queue managers. Two of those are measured, as
well. ``--quick``: fewer messages.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.peers import Postroom

from bench import command, cores_model, floor, hand_over, loadtool, loop_rooms, machine_limits, parts
from bench.cores_model import Bound, Costs, Handed, Limits
from bench.machine_limits import MachineLimits
from bench.progress import show_progress
from bench.thread_times import COMMIT, LOOP, OTHERS, Times, by_role

MODES: Final = {"in": "send", "out": "receive", "both": "both"}
COPIES: Final = {"in": 4, "out": 3, "both": 6}
"""Of each body: out of the socket, out of the read buffer, into the block, into the page cache; out of it
into the frames and into the socket. One that is delivered at once is still in memory."""
OUTCOME_BYTES: Final = 100
"""Records of a delivery and of its acceptance."""
MESSAGES, QUICK_MESSAGES = 500_000, 100_000
WARM_UP: Final = 100_000
CORES: Final = (2, 4, 16)
BATCH: Final = 100
"""Of the hand-over that the model counts with: about what a turn takes (256 frames at most)."""
US: Final = 1_000_000


@dataclass
class Traffic:
    """One kind: µs of processor time a message, by thread, and where the loop's goes."""

    rate: float
    busy: float
    """Share of the time in which the loop's thread ran."""
    threads: dict[str, Times]
    rooms: dict[str, float] = field(default_factory=dict)

    @property
    def sum_us(self) -> float:
        return sum(times.both_s for times in self.threads.values()) * US


def measure_traffic(folder: Path, messages: int) -> dict[str, Traffic]:
    """In, out and both at once, of one broker: first the times, then again with samples of the loop."""
    found = {}
    with Postroom(folder) as broker:
        loadtool.run(broker, "both", "orders", messages=WARM_UP)
        for name, mode in MODES.items():
            show_progress(f"cores: {name}")
            before = by_role(broker.pid)
            report = loadtool.run(broker, mode, "orders", messages=messages)
            after = by_role(broker.pid)
            spent = {role: after[role] - before[role] for role in after}
            each = {role: Times(t.user_s / messages, t.kernel_s / messages) for role, t in spent.items()}
            busy = spent[LOOP].both_s / report.seconds
            found[name] = Traffic(report.rate, busy, each)
        if loop_rooms.available():
            for name, mode in MODES.items():
                with loop_rooms.sampled(broker.pid, folder) as samples:
                    loadtool.run(broker, mode, "orders", messages=messages)
                found[name].rooms = loop_rooms.read(samples)
    return found


def measure_side_by_side(folder: Path, messages: int) -> dict[str, float]:
    """Two queue managers at once, each with a load client that sends to it."""
    show_progress("cores: two queue managers side by side")
    with ExitStack() as stack:
        brokers = []
        for name in ("first", "second"):
            (folder / name).mkdir()
            brokers.append(stack.enter_context(Postroom(folder / name)))
        for broker in brokers:
            loadtool.run(broker, "both", "orders", messages=WARM_UP)
        before = [by_role(broker.pid) for broker in brokers]
        clients = [loadtool.start(broker, "send", "orders", messages=messages) for broker in brokers]
        rate = sum(loadtool.read_report(*client.communicate()).rate for client in clients)
        after = [by_role(broker.pid) for broker in brokers]
    spent_s = sum(
        (now[role] - then[role]).both_s for then, now in zip(before, after, strict=True) for role in now
    )
    return {
        "in, two queue managers side by side, messages a second": rate,
        "in, two queue managers side by side, sum, µs": spent_s / messages / len(brokers) * US,
    }


def framing_parts_us(found: dict[str, float]) -> dict[str, float]:
    """Of the parts that `bench.parts` measures alone, what reads and writes AMQP, by kind of traffic."""
    arriving = found["frame found, transfer read, payload copied"] + found["head scanned"]
    leaving = found["header and transfer written"]
    answers = found[f"dispositions written and read, {parts.RANGE} messages each"]
    return {"in": arriving + answers, "out": leaving + answers, "both": arriving + leaving + 2 * answers}


def costs_of(name: str, traffic: Traffic, framing_us: float) -> Costs:
    """What the model counts with. Without samples of the loop, framing is the parts and the kernel."""
    loop = traffic.threads[LOOP]
    loop_us = loop.both_s * US
    if traffic.rooms:
        framing_us = loop_us * loop_rooms.movable(traffic.rooms)
    else:
        framing_us += loop.kernel_s * US
    synced = {"in": floor.RECORD_BYTES, "out": OUTCOME_BYTES}
    return Costs(
        loop_us=loop_us,
        framing_us=framing_us,
        commit_us=traffic.threads[COMMIT].both_s * US,
        maintenance_us=traffic.threads[OTHERS].both_s * US,
        copies=COPIES[name],
        bytes_copied=floor.RECORD_BYTES,
        bytes_synced=synced.get(name, sum(synced.values())),
    )


def bounds(costs: dict[str, Costs], handed: Handed, limits: Limits) -> dict[str, Bound]:
    """Each design on each number of cores, by kind of traffic."""
    found = {}
    for name, each in costs.items():
        for cores in CORES:
            crossing = (cores - 1) / cores
            for design, bound in (
                ("one loop, as it is", cores_model.one_loop(each, limits, cores)),
                ("connections in processes", cores_model.framing_outside(each, handed, limits, cores)),
                (
                    "queue managers side by side",
                    cores_model.several_managers(each, costs["both"], 0.0, limits, cores),
                ),
                (
                    "queue managers, joined by channels",
                    cores_model.several_managers(each, costs["both"], crossing, limits, cores),
                ),
            ):
                found[f"{name}, {cores} cores: {design}"] = bound
    return found


def measure(folder: Path, messages: int) -> dict[str, float | str]:
    """Every figure by its name."""
    traffic = measure_traffic(folder / "broker", messages)
    beside = measure_side_by_side(folder, messages // 2)
    show_progress("cores: parts")
    measured_parts = parts.measure(folder / "parts")
    show_progress("cores: handing over")
    handed = hand_over.measure()
    woken_us = hand_over.wake_up_us()
    show_progress("cores: the machine")
    limits = machine_limits.measure(folder)
    framing = framing_parts_us(measured_parts)
    costs = {name: costs_of(name, each, framing[name]) for name, each in traffic.items()}
    found: dict[str, float | str] = {}
    for name, each in traffic.items():
        found |= _traffic_figures(name, each, framing[name], costs[name])
    found |= beside
    for batch in handed:
        found[f"handed over in batches of {batch.batch}, connections' side, µs"] = batch.writer_us
        found[f"handed over in batches of {batch.batch}, engine's side, µs"] = batch.taker_us
    found["another process woken after, p50 µs"] = woken_us
    found |= _limit_figures(limits)
    (chosen,) = (batch for batch in handed if batch.batch == BATCH)
    sides = Handed(chosen.writer_us, chosen.taker_us)
    for label, bound in bounds(costs, sides, Limits(limits.copied_by_all, limits.synced)).items():
        found[f"at most, {label}"] = (
            f"{bound.rate:,.0f}/s by {bound.by}, disk {bound.disk_rate:,.0f}/s, {bound.sum_us:.2f} µs each"
        )
    return found


def _traffic_figures(name: str, traffic: Traffic, framing_us: float, costs: Costs) -> dict[str, float]:
    loop = traffic.threads[LOOP]
    found = {
        f"{name}, messages a second": traffic.rate,
        f"{name}, event loop busy, %": 100 * traffic.busy,
        f"{name}, event loop, user µs": loop.user_s * US,
        f"{name}, event loop, kernel µs": loop.kernel_s * US,
        f"{name}, commit thread, µs": traffic.threads[COMMIT].both_s * US,
        f"{name}, maintenance and others, µs": traffic.threads[OTHERS].both_s * US,
        f"{name}, sum, µs": traffic.sum_us,
        f"{name}, framing measured alone, µs": framing_us,
        f"{name}, of the loop's what could leave, µs": costs.framing_us,
    }
    shares = {f"{name}, of the loop's in {room}, %": 100 * share for room, share in traffic.rooms.items()}
    return found | shares


def _limit_figures(limits: MachineLimits) -> dict[str, float]:
    return {
        "memory copied by one core, MB/s": limits.copied_by_one / 1e6,
        "memory copied by all, MB/s": limits.copied_by_all / 1e6,
        "loopback, MB/s": limits.loopback / 1e6,
        "1.2 KB appended and synced, p50 µs": limits.sync_us,
        "appended and synced in blocks of 1 MB, MB/s": limits.synced / 1e6,
    }


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m bench.cores", description=__doc__)
    parser.add_argument("--messages", type=int)
    parser.add_argument("--quick", action="store_true")
    command.add_arguments(parser)
    options = parser.parse_args()
    messages = options.messages or (QUICK_MESSAGES if options.quick else MESSAGES)
    loadtool.build()
    with command.scratch(options.folder) as folder:
        for name in ("broker", "parts"):
            (folder / name).mkdir()
        found = measure(folder, messages)
    command.print_report(found, options.json, 2)


if __name__ == "__main__":
    main()

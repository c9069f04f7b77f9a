"""Results as Markdown: medians with the interval seen, and ratios beside them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

from bench import connections as forty
from bench import features as at_work
from bench import publishing
from bench import sizes as of_size
from bench.floor import ANSWERED
from bench.floor import LABEL as FLOOR
from bench.memory import Waiting
from bench.traffic import RATES, Measured, of_window

REFERENCE = "RabbitMQ quorum"
"""Whose median the ratios are to."""


def markdown_table(header: list[str], rows: Iterable[list[str]]) -> str:
    """A table with its numbers to the right."""
    lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def whole(value: float) -> str:
    """A rate: 12,345."""
    return "∞" if value == float("inf") else f"{value:,.0f}"


def tenths(value: float) -> str:
    """A small figure: 4.7."""
    return f"{value:.1f}"


def spread(values: list[float], show: Callable[[float], str] = whole) -> str:
    """Median and, for several values, the smallest and largest."""
    if not values:
        return "–"
    middle = show(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({show(min(values))}–{show(max(values))})"


def _ratio(values: list[float], reference: list[float]) -> str:
    if not values or not reference:
        return "–"
    return f"{statistics.median(values) / statistics.median(reference):.2f}"


def rates(results: dict[str, Measured], of: str = REFERENCE) -> str:
    """Messages a second in, out and both at once, each with its ratio to the row called `of`."""
    reference = results.get(of, Measured())
    header = ["messages a second", "enqueue", "×", "dequeue", "×", "both at once", "×", "messages a sync"]
    rows = []
    for label, measured in results.items():
        row = [label]
        for name in ("enqueue", "dequeue", "both"):
            values = measured.values.get(name, [])
            row += [spread(values), _ratio(values, reference.values.get(name, []))]
        rows.append([*row, spread(measured.values.get("messages_per_sync", []))])
    note = f"× is the ratio to {of}, of medians. `{FLOOR}` syncs after every record.\n"
    return markdown_table(header, rows) + "\n" + note


def best_windows(results: dict[str, Measured], usual: int, others: tuple[int, ...], of: str) -> str:
    """The same, each with as many messages in flight as it is fastest with; ratios to the best of all rows
    whose labels begin with `of`."""
    header = ["messages a second, each at its best"]
    for what in ("enqueue", "dequeue", "both at once"):
        header += [what, "in flight", "×"]
    reference = [each for label, each in results.items() if label.startswith(of)]
    references = {
        name: max((_best_window(each, name, usual, others)[1] for each in reference), key=_middle, default=[])
        for name, _ in RATES
    }
    rows = []
    for label, measured in results.items():
        row = [label]
        for name, _ in RATES:
            window, values = _best_window(measured, name, usual, others)
            row += [spread(values), whole(window), _ratio(values, references[name])]
        if label not in (FLOOR, ANSWERED):
            rows.append(row)
    return markdown_table(header, rows)


def _best_window(
    measured: Measured, name: str, usual: int, others: tuple[int, ...]
) -> tuple[int, list[float]]:
    found = {usual: measured.values.get(name, [])}
    found |= {window: measured.values.get(of_window(name, window), []) for window in others}
    best = max(found, key=lambda window: _middle(found[window]))
    return best, found[best]


def _middle(values: list[float]) -> float:
    return statistics.median(values) if values else 0.0


def processor(results: dict[str, Measured]) -> str:
    """Processor time of the broker a message."""
    header = ["broker CPU, µs a message", "enqueue", "dequeue", "both at once"]
    names = ("enqueue_cpu_us", "dequeue_cpu_us", "both_cpu_us")
    rows = [
        [label, *(spread(measured.values.get(name, []), tenths) for name in names)]
        for label, measured in results.items()
        if label not in (FLOOR, ANSWERED)
    ]
    return markdown_table(header, rows)


def latency(results: dict[str, Measured]) -> str:
    """One message in flight, idle and beside a saturating sender."""
    header = [
        "accepted after, µs",
        "idle p50",
        "idle p99",
        "beside p50",
        "beside p99",
        "messages/s of the other",
    ]
    names = ("ping_p50_us", "ping_p99_us", "beside_p50_us", "beside_p99_us", "beside_flood_rate")
    rows = [[label, *(spread(m.values.get(name, [])) for name in names)] for label, m in results.items()]
    return markdown_table(header, rows)


def transactions(results: dict[str, Measured]) -> str:
    """Messages a second by the size of a transaction, and commits a second by the number of senders."""
    sizes = (1, 10, 100, 1000)
    columns = [(way, size) for way in ("send", "receive") for size in sizes]
    header = ["messages a second", *(f"{way}, {size:,} in each" for way, size in columns)]
    rows = [
        [label, *(spread(m.values.get(f"{way}_{size}", [])) for way, size in columns)]
        for label, m in results.items()
        if "send_1" in m.values
    ]
    counts = (1, 4, 16)
    ways = (("commits", "of local transactions"), ("branches", "of XA, two-phase"))
    of_commits = [(way, count) for way, _ in ways for count in counts]
    second = ["commits a second", *(f"{what}, {count} at once" for _, what in ways for count in counts)]
    more = [
        [label, *(spread(m.values.get(f"{way}_{count}", [])) for way, count in of_commits)]
        for label, m in results.items()
    ]
    return markdown_table(header, rows) + "\n" + markdown_table(second, more)


WAYS = (("enqueue", "in"), ("dequeue", "out"), ("both", "both at once"))


def sizes(results: dict[str, Measured]) -> str:
    """Messages a second by the size of a body: in, out, both at once; Postroom's ratio to the best peer."""
    limits = (of_size.DISK, of_size.LOOPBACK, of_size.CLIENT)
    peers = {label: each for label, each in results.items() if label not in limits}
    parts = []
    for rate, way in WAYS:
        names = [of_size.name_of(rate, size) for size in of_size.MESSAGES]
        header = [f"{way}, messages a second", *(_bytes(size) for size in of_size.MESSAGES)]
        rows = [
            [label, *(spread(measured.values.get(name, []), exact) for name in names)]
            for label, measured in results.items()
            if any(name in measured.values for name in names)
        ]
        parts.append(markdown_table(header, [*rows, _beside_peers(peers, names)]))
    parts.append(versions(peers))
    return "\n".join(parts)


def _bytes(size: int) -> str:
    for unit, factor in (("MB", 1_000_000), ("KB", 1000)):
        if size >= factor:
            return f"{size // factor} {unit}"
    return f"{size} B"


def exact(value: float) -> str:
    """A rate, or a small one with a decimal."""
    return whole(value) if value >= 100 else tenths(value)


def _beside_peers(results: dict[str, Measured], names: list[str]) -> list[str]:
    """A row: the first's ratio to the best of the others, for each measurement."""
    first, *others = results.values()
    row = []
    for name in names:
        best = max((other.values.get(name, []) for other in others), key=_middle, default=[])
        row.append(_ratio(first.values.get(name, []), best))
    return ["Postroom / the best peer", *row]


def connections(results: dict[str, Measured]) -> str:
    """Messages a second over forty connections, by the layout of queues."""
    columns = [(layout, what, rate, way) for layout, what in forty.LAYOUTS for rate, way in WAYS]
    names = [forty.name_of(rate, layout) for layout, _, rate, _ in columns]
    header = ["messages a second", *(f"{what}: {way}" for _, what, _, way in columns)]
    rows = [[label, *(spread(m.values.get(name, [])) for name in names)] for label, m in results.items()]
    return markdown_table(header, [*rows, _beside_peers(results, names)])


def publishes(results: dict[str, Measured]) -> str:
    """Publishes and deliveries a second by the number of subscriptions."""
    kinds = ("publishes", "deliveries")
    columns = [(what, count) for what in kinds for count in publishing.PUBLISHES]
    names = [publishing.name_of(what, count) for what, count in columns]
    header = ["a second, by subscriptions", *(f"{what}, {count:,}" for what, count in columns)]
    rows = [[label, *(spread(m.values.get(name, [])) for name in names)] for label, m in results.items()]
    return markdown_table(header, [*rows, _beside_peers(results, names)])


def features(results: dict[str, Measured]) -> str:
    """Messages a second with each feature and their share of plain ones'; and processor time of both."""
    header, second = ["messages a second"], ["broker CPU, µs a message"]
    for _, way in WAYS:
        header += [way, "× plain"]
        second += [way, "plain"]
    rows, more = [], []
    for label, measured in results.items():
        row, times = [label], [label]
        for rate, _ in WAYS:
            own, plain = (at_work.name_of(rate, each) for each in (False, True))
            values = measured.values.get(own, [])
            row += [spread(values), spread(_shares(values, measured.values.get(plain, [])), hundredths)]
            times += [spread(measured.values.get(f"{name}_cpu_us", []), tenths) for name in (own, plain)]
        rows.append(row)
        more.append(times)
    return markdown_table(header, rows) + "\n" + markdown_table(second, more)


def _shares(values: list[float], plain: list[float]) -> list[float]:
    """Round by round."""
    return [value / each for value, each in zip(values, plain, strict=True)]


def hundredths(value: float) -> str:
    """A share: 0.87."""
    return f"{value:.2f}"


def channels(results: dict[str, Measured]) -> str:
    """Messages a second from one broker to another by the size of a batch, and ratios to the best shovel."""
    sizes = (1, 50, 500)
    best = {size: _best_shovel(results, f"moved_{size}") for size in sizes}
    header = ["messages a second"]
    for size in sizes:
        header += [f"{size:,} at a time", "×"]
    rows = []
    for label, measured in results.items():
        row = [label]
        for size in sizes:
            values = measured.values.get(f"moved_{size}", [])
            row += [spread(values), _ratio(values, best[size])]
        rows.append(row)
    return markdown_table(header, rows) + "\n× is the ratio to the best shovel of that column, of medians.\n"


def _best_shovel(results: dict[str, Measured], name: str) -> list[float]:
    shovels = [m.values[name] for label, m in results.items() if "shovel" in label and name in m.values]
    return max(shovels, key=statistics.median, default=[])


def waiting(seen: Waiting) -> str:
    """Memory, rates and restart with many messages waiting."""
    millions = seen.messages // 1_000_000
    rows = [
        ["bytes of memory a waiting message", tenths(seen.bytes_each)],
        ["RssAnon before, and with all waiting", f"{_mib(seen.before)}, {_mib(seen.settled)}"],
        ["peak RssAnon while filling", _mib(seen.peak_filling)],
        ["enqueue, the whole filling", f"{whole(seen.fill_rate)} /s"],
        ["enqueue on an empty queue beside it", f"{spread(seen.empty_rates)} /s"],
        ["enqueue on the full queue", f"{spread(seen.full_rates)} /s"],
        ["full / empty", f"{seen.full_over_empty:.2f}"],
        ["dequeue from a queue with that alone", f"{spread(seen.empty_out_rates)} /s"],
        ["dequeue from the full queue", f"{spread(seen.full_out_rates)} /s"],
        ["full / empty, dequeue", f"{seen.full_over_empty_out:.2f}"],
        ["ledger on disk", _mib(seen.ledger_bytes)],
        ["clean stop", f"{seen.stop_s:.1f} s"],
    ]
    for end, (seconds, peak) in seen.restarts.items():
        rows.append([f"start to first delivery after {end}", f"{seconds:.1f} s"])
        rows.append([f"peak RssAnon of that start ({end})", _mib(peak)])
    priorities = "priorities 0 to 9 in turn" if seen.mixed_priorities else "one priority"
    count = f"{millions} million" if millions else f"{seen.messages:,}"
    return markdown_table([f"{count} waiting, {priorities}", "seen"], rows)


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:,.0f} MiB"


def versions(results: dict[str, Measured]) -> str:
    """Who was measured, and what was set apart from defaults."""
    rows = [
        [label, m.version, ", ".join(f"{key} = {value}" for key, value in m.settings.items()) or "defaults"]
        for label, m in results.items()
        if m.version
    ]
    return markdown_table(["", "version", "settings"], rows)


def facts(values: dict[str, str]) -> str:
    """A two-column table."""
    return markdown_table(["", ""], ([key, value] for key, value in values.items()))

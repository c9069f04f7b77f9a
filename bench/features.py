"""What a feature costs while it is at work: rates with it, and of plain messages just before or after.

Postroom alone. A run with the feature and one without it are a pair, whose order changes from round to round,
so that what the machine does meanwhile, and what a run leaves to the next, is alike for both.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from tools.peers import Broker, Postroom

from bench import loadtool, processor, rounds
from bench.contenders import Contender
from bench.traffic import RATES, Measured

MESSAGES, QUICK_MESSAGES = 200_000, 40_000
"""In each timed run."""
WARM_UP_S = 3.0
DELAY_MS = 200
GROUPED = "groups"
CONFIGURATION = f'\n[[queue]]\nname = "{GROUPED}"\ngroup_buckets = 1024\n'


@dataclass(frozen=True)
class Feature:
    """What the load client is given to use it; a plain run has the connections alone."""

    label: str
    options: dict[str, object]
    queue: str = "bench"
    common: dict[str, object] = field(default_factory=dict)


FEATURES = (
    Feature("selector at the receiver, all match", {"kinds": True, "selector": "kind < 10"}),
    Feature("priorities 0 to 9 in turn", {"mixed_priorities": True}),
    Feature("1,000 message groups, 4 connections", {"groups": 1000}, GROUPED, {"connections": 4}),
    Feature("expiry in an hour", {"ttl": 3_600_000}),
    Feature(f"delivery {DELAY_MS} ms after sending", {"delay": DELAY_MS}),
)


def measure(
    contenders: list[Contender], count: int, quick: bool, results: dict[str, Measured], failures: list[str]
) -> None:
    """So many rounds; fills `results` by the feature's label."""
    own = [contender for contender in contenders if contender.key == "postroom"]
    order = [False, True]

    def measure_contender(contender: Contender, folder: Path) -> None:
        broker = contender.start(folder)
        assert isinstance(broker, Postroom)
        broker.configuration += CONFIGURATION
        with broker:
            loadtool.run(broker, "both", "bench", messages=0, seconds=WARM_UP_S)
            for feature in FEATURES:
                measured = results.setdefault(feature.label, Measured())
                for plain in order:
                    _measure_feature(broker, feature, plain, QUICK_MESSAGES if quick else MESSAGES, measured)
        order.reverse()

    rounds.run("features", own, count, measure_contender, failures)


def name_of(rate: str, plain: bool) -> str:
    """The measurement of a rate, with the feature or beside it."""
    return f"{rate}_plain" if plain else rate


def _measure_feature(
    broker: Broker, feature: Feature, plain: bool, messages: int, measured: Measured
) -> None:
    options = feature.common if plain else {**feature.common, **feature.options}
    queue = "bench" if plain else feature.queue
    for rate, mode in RATES:
        used = processor.seconds_of(broker)
        report = loadtool.run(broker, mode, queue, messages=messages, **options)
        used = processor.seconds_of(broker) - used
        name = name_of(rate, plain)
        measured.add(name, report.rate if mode == "send" else report.arrival_rate)
        measured.add(f"{name}_cpu_us", used * 1e6 / messages)
        time.sleep(DELAY_MS * 1e-3)  # what was sent last is due then

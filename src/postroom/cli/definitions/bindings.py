"""Exchanges and bindings of RabbitMQ: as topics and subscriptions, where they have a meaning here.

An exchange is the first levels of a topic's name, and a routing key the rest: what was published to
``prices`` with the key ``eu.gold`` is published to the topic ``prices.eu.gold``, what was published to a
fanout exchange to the topic of its name. A binding to a queue is a shared subscription, which consumers
receive from by its name instead of from the queue.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from postroom.cli.definitions.file_format import Table
from postroom.manager.kernel.name_rules import LEVEL_MARK, REST, is_pattern

BOUND: Final = ("fanout", "topic", "direct")
OWN_PREFIX: Final = "amq."
"""Of the exchanges that are always there."""
_TYPES: Final = {"amq.direct": "direct", "amq.fanout": "fanout", "amq.topic": "topic"}


class Exchanges:
    """The exchanges of one virtual host and what is bound to them."""

    def __init__(
        self,
        exchanges: list[dict[str, Any]],
        bindings: list[dict[str, Any]],
        remark: Callable[[str], None],
    ) -> None:
        self._remark: Final = remark
        self._types: Final = dict(_TYPES)
        self._bindings: Final[list[tuple[str, str, str]]] = []
        """Exchange, routing key, queue."""
        for row in exchanges:
            self._types[str(row.get("name", ""))] = str(row.get("type", ""))
            if row.get("arguments"):
                remark(f"exchange {row.get('name')}: arguments {', '.join(map(str, row['arguments']))}")
        for name, kind in self._types.items():
            if name and kind not in BOUND and not name.startswith(OWN_PREFIX):
                remark(f"exchange {name}: of type {kind}: use subscriptions with selectors")
        for row in bindings:
            self._bind(row)

    def _bind(self, row: Mapping[str, Any]) -> None:
        source, to = str(row.get("source", "")), str(row.get("destination", ""))
        key = str(row.get("routing_key", ""))
        text = f"binding of {to} to {source} ({key or 'no key'})"
        if not source:
            return  # of the default exchange: every queue has its own name anyhow
        if row.get("destination_type") != "queue":
            self._remark(f"{text}: exchanges aren't bound to exchanges here")
        elif self._types.get(source) not in BOUND:
            self._remark(f"{text}: no fanout, topic or direct exchange is called {source}")
        else:
            self._bindings.append((source, "" if self._types[source] == "fanout" else key, to))

    def dead_letter_queue(self, queue: str, keys: Mapping[str, Any]) -> str:
        """The one queue to which dead letters of ``queue`` go; "" where there isn't just one."""
        if "dead-letter-exchange" not in keys:
            return ""
        exchange, key = str(keys["dead-letter-exchange"]), keys.get("dead-letter-routing-key")
        if not exchange and isinstance(key, str):
            return key
        reached = sorted(
            {to for source, of, to in self._bindings if source == exchange and self._leads(of, source, key)}
        )
        if len(reached) == 1:
            return reached[0]
        what = "more than one queue" if reached else "no one queue"
        self._remark(
            f"queue {queue}: dead-letter-exchange {exchange!r} leads to {what}: name a dead_letter_queue"
        )
        return ""

    def _leads(self, of: str, exchange: str, key: object) -> bool:
        """Whether a binding's key takes the dead letters' key; without one they have their own."""
        kind = self._types[exchange]
        if kind == "fanout" or of == REST:
            return True
        if not isinstance(key, str):
            return False
        return _matches(of.split(LEVEL_MARK), key.split(LEVEL_MARK)) if kind == "topic" else of == key

    def subscriptions(self, queues: Mapping[str, Table]) -> tuple[list[Table], list[Table]]:
        """Topics, and subscriptions to them with the settings of the queues that are bound."""
        topics: dict[str, Table] = {}
        found: list[Table] = []
        counts: dict[str, int] = {}
        names = [to for _, _, to in self._bindings]
        for exchange, key, to in self._bindings:
            topic = _topic(self._types[exchange], exchange, key)
            if to not in queues or not topic:
                why = f"{to} isn't taken" if to not in queues else f"{REST} in {key} isn't the last level"
                self._remark(f"binding of {to} to {exchange} ({key or 'no key'}): {why}")
                continue
            counts[to] = counts.get(to, 0) + 1
            name = to if names.count(to) == 1 else f"{to}-{counts[to]}"
            settings = {each: value for each, value in queues[to].items() if each != "name"}
            found.append({"name": name, "topic": topic, "shared": True, **settings})
            if not is_pattern(topic):
                topics.setdefault(topic, {"name": topic})
            self._remark(
                f"binding of {to} to {exchange}: copies; consumers receive from {topic}::{name}, not {to}"
            )
        return list(topics.values()), found


def _topic(kind: str, exchange: str, key: str) -> str:
    """The topic, or pattern, that a binding means; "" where none can."""
    if kind == "fanout" or not key:
        return exchange
    levels = key.split(LEVEL_MARK)
    return "" if kind == "topic" and REST in levels[:-1] else f"{exchange}{LEVEL_MARK}{key}"


def _matches(pattern: list[str], key: list[str]) -> bool:
    """By RabbitMQ's rules: ``#`` is any number of words, wherever it stands."""
    reached = {0}
    for word in pattern:
        if word == REST:
            reached = set(range(min(reached), len(key) + 1)) if reached else set()
        else:
            reached = {at + 1 for at in reached if at < len(key) and word in ("*", key[at])}
    return len(key) in reached

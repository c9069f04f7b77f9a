"""What people call ledgers and their queues."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from postroom.spark.audit.result import AuditResult
from postroom.spark.pipeline.settings import ledger_names

NAMELESS: Final = "(clients)"
SHORT_ID: Final = 8
"""The last characters of a ledger's id stand for one without a name; the first ones may be a time."""


class Naming:
    """Names of ledgers, and of queues with their ledger's in front where there are several."""

    def __init__(self, names: Mapping[str, str], is_one: bool, every: bool = False) -> None:
        """``every``: queues that were named by chance are not one."""
        self._names = names
        self._is_one = is_one
        self._every = every

    def ledger(self, ledger_id: str) -> str:
        return self._names.get(ledger_id) or ledger_id[-SHORT_ID:]

    def queue(self, ledger_id: str, queue: str) -> str:
        """All queues that were named by chance are one."""
        name = queue if self._every else steady(queue) or queue
        return name if self._is_one else f"{self.ledger(ledger_id)}: {name}"


CHANCE: Final = re.compile(r"[-_.]?[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")
"""A random id within a name, as clients and dynamic queues have it."""


def steady(name: str) -> str:
    """A name without its random ids: what it has in common with others that mean the same."""
    return CHANCE.sub("", name)


def container(producer: str) -> str:
    """Who a producer (``container/link``) belongs to; all that have no name but a random one are one."""
    return steady(producer.split("/", 1)[0]) or NAMELESS


def naming_of(root: str, ledger_ids: Iterable[str], audit: AuditResult | None, every: bool = False) -> Naming:
    """Names as the audit has them, else as the pipeline keeps them. Raises ``OSError``."""
    names = {cut.ledger_id: cut.name for cut in audit.cuts} if audit else {}
    return Naming({**ledger_names(root), **names}, len(set(ledger_ids)) < 2, every)

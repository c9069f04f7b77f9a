"""Members of one queue manager as real processes, each with a folder of its own."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from tests.clients.broker import BrokerProcess

FOLLOWS_S = 60
POLL_S = 0.05
CONFIG = """
[[listen]]
address = "{{address}}"
[replication]
servers = {servers}
monitoring = {monitoring}
stream = "{stream}"
member = "{member}"
{more}
[queue_defaults]
redelivery_delay_ms = 0
[[queue]]
name = "q"
[[queue]]
name = "done"
"""


class Engine(Protocol):
    """A cluster's addresses, as the configuration names them."""

    @property
    def urls(self) -> list[str]: ...
    @property
    def monitoring(self) -> list[str]: ...


def member(folder: Path, name: str, engine: Engine, stream: str, more: str = "") -> BrokerProcess:
    """One that was not started yet; ``more``: lines of its table `[replication]`."""
    known = {"servers": engine.urls, "monitoring": engine.monitoring, "stream": stream}
    return BrokerProcess(folder / name, CONFIG.format(member=name, more=more, **known))


def wait_until_following(member: BrokerProcess) -> None:
    """Until its log says that it follows: nobody can connect to it who would hear of that."""
    wait_until_logged(member, " following ", FOLLOWS_S)


def wait_until_logged(member: BrokerProcess, text: str, timeout_s: float) -> None:
    """Until its log has that; a file of another process tells nobody that it has grown, so it is polled."""
    end_s = time.monotonic() + timeout_s
    while text not in member.log_text:
        assert time.monotonic() < end_s, member.log_text
        time.sleep(POLL_S)


@contextmanager
def members(
    folder: Path, engine: Engine, stream: str, names: str = "ab", more: str = "", of_first: str = ""
) -> Iterator[list[BrokerProcess]]:
    """The first is active when they are given, the others follow; ``of_first``: tables of its alone."""
    firsts = [member(folder, names[0], engine, stream, more + of_first)]
    made = [*firsts, *(member(folder, name, engine, stream, more) for name in names[1:])]
    with ExitStack() as stack:
        for each in made:
            stack.callback(each.kill)
        made[0].start()
        for each in made[1:]:
            each.launch()
        yield made

"""Members of one queue manager as real processes, each with a folder of its own."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tools.peers.nats import NatsCluster

from tests.clients.broker import BrokerProcess

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


def member(folder: Path, name: str, nats: NatsCluster, stream: str, more: str = "") -> BrokerProcess:
    """One that was not started yet; ``more``: lines of its table `[replication]`."""
    known = {"servers": nats.urls, "monitoring": nats.monitoring, "stream": stream}
    return BrokerProcess(folder / name, CONFIG.format(member=name, more=more, **known))


@contextmanager
def members(
    folder: Path, nats: NatsCluster, stream: str, names: str = "ab", more: str = "", of_first: str = ""
) -> Iterator[list[BrokerProcess]]:
    """The first is active when they are given, the others follow; ``of_first``: tables of its alone."""
    firsts = [member(folder, names[0], nats, stream, more + of_first)]
    made = [*firsts, *(member(folder, name, nats, stream, more) for name in names[1:])]
    with ExitStack() as stack:
        for each in made:
            stack.callback(each.kill)
        made[0].start()
        for each in made[1:]:
            each.launch()
        yield made

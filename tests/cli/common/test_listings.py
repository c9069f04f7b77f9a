"""Every command that lists, in a pipe: each name, id and number is whole, and all in one style."""

import re
from collections.abc import Iterator
from typing import Final

import click
import pytest

from postroom.cli import main
from postroom.client import ConnectionFactory, Message, Xid
from tests.cli.shell import Shell
from tests.server.harness import BrokerThread
from tests.server.peers import EnginePeer
from tests.server.sink_peer import sealed
from tests.server.transaction_peer import Controller

pytestmark = pytest.mark.sockets

WIDE: Final = f"{'orders.of.the.day.' * 12}end"
BODY_BYTES: Final = 1_234_567
NUMBER: Final = f"{BODY_BYTES:,}"
MESSAGE: Final = "ID:" + "m" * 200
CHANNEL: Final = "CHANNEL.OF.20.LETTER"
XID: Final = Xid(1, b"g" * 64, b"b" * 64)

LISTINGS: Final = {
    "queue list": ((), (WIDE,)),
    "topic list": ((), (f"T{WIDE}",)),
    "subscription list": ((), ()),
    "remote-queue list": ((), (f"R{WIDE}",)),
    "quota list": ((), (f"Q{WIDE}", NUMBER)),
    "channel list": ((), (CHANNEL,)),
    "channel status": ((), (CHANNEL,)),
    "message list": ((WIDE,), (MESSAGE,)),
    "browse": ((WIDE,), (NUMBER, MESSAGE)),
    "dlq list": ((WIDE,), ()),
    "dlq handlers": ((), ()),
    "connection list": ((), ()),
    "user list": ((), ()),
    "role list": ((), ("administrator",)),
    "transaction list": ((), (str(XID),)),
    "sink list": ((), (f"K{WIDE}",)),
    "spark-subscription list": ((), (f"P{WIDE}", f"H{WIDE}")),
    "store list": ((), (f"H{WIDE}", str(BODY_BYTES))),
    "ledger lease list": ((), (f"L{WIDE}",)),
}
"""What each is told, and what must be among its words."""
OF_MESSAGES: Final = ("message list", "browse", "dlq list")
"""With bodies, which are shortened."""
ELSEWHERE: Final = {
    "store browse": "one message a line, no table",
    "member list": "of a replicated queue manager: tests/replication/test_take_over.py",
    "status": "of one broker: tests/cli/broker/test_status.py",
    "token list": "of a file: tests/server/test_tokens.py",
    "pipeline status": "of tables: tests/pipeline",
}


def commands(group: click.Group, before: str = "") -> Iterator[str]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}"


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    """A broker on which everything has a long name, and much of it a large number."""
    with BrokerThread() as running:
        record = Shell(running.url)
        fill(record)
        with (
            ConnectionFactory(running.url).create_connection() as connection,
            EnginePeer(running.port, container_id=f"c{WIDE}") as peer,
        ):
            resource = connection.create_xa_session().xa_resource
            resource.start(XID)
            sealed(Controller(running, peer, f"H{WIDE}"), f"K{WIDE}", "a")
            yield record
            resource.end(XID)
            resource.rollback(XID)


def fill(shell: Shell) -> None:
    shell.ok("queue", "create", WIDE)
    shell.ok("queue", "create", f"H{WIDE}")
    shell.ok("queue", "create", "X", "--set", "usage=transmission")
    with ConnectionFactory(shell.runner.env["POSTROOM_URL"]).create_connection() as connection:
        producer = connection.create_session().create_producer(WIDE)
        producer.send(Message(b"\xff" * BODY_BYTES, message_id=MESSAGE))
    shell.ok("topic", "create", f"T{WIDE}")
    shell.run("get", f"T{WIDE}", "--topic", "--subscription", "s" * 20)
    shell.ok("quota", "create", f"Q{WIDE}", "--set", f"messages_maximum={BODY_BYTES}")
    remote = ["--set", f"remote_queue={WIDE}", "--set", "remote_queue_manager=X"]
    shell.ok("remote-queue", "define", f"R{WIDE}", *remote)
    sender = ["--set", "connection=amqp://127.0.0.1:1", "--set", "transmission_queue=X"]
    shell.ok("channel", "define", CHANNEL, "sender", *sender)
    shell.ok("spark-subscription", "create", f"P{WIDE}", "--queue", f"H{WIDE}")
    shell.ok("store", "put", f"H{WIDE}", "x", "--confirm-id", str(BODY_BYTES))
    shell.ok("ledger", "lease", "grant", f"L{WIDE}", "--owner", f"O{WIDE}", "--queue", WIDE)


def test_every_listing_is_here() -> None:
    names = {"list", "status", "handlers", "browse"}
    found = {name for name in commands(main) if name.split()[-1] in names}
    assert found == {*LISTINGS, *ELSEWHERE}


@pytest.mark.parametrize("name", LISTINGS)
def test_nothing_is_cut_in_a_pipe(shell: Shell, name: str) -> None:
    arguments, wanted = LISTINGS[name]
    output = shell.ok(*name.split(), *arguments)
    rows = shell.json(*name.split(), *arguments)
    words = set(re.split(r"\s+", output))
    assert words >= set(wanted)
    if name != "dlq list":
        assert words >= {
            f"{row[key]:,}" for row in rows for key in ("bytes_current", "body_bytes") if key in row
        }
    if name not in (*OF_MESSAGES, "connection list"):  # the command's own is gone by now
        assert words >= {str(row["name"]) for row in rows if not row.get("dynamic")}
    assert "…" not in re.sub(r"\S…(?=\s*\n)", "", output) if name in OF_MESSAGES else "…" not in output
    assert not re.search("[┃│━─]", output)


@pytest.mark.parametrize("command", ["queue show", "queue stats"])
def test_what_is_shown_of_one_is_whole(shell: Shell, command: str) -> None:
    (row,) = shell.json("queue", "list", WIDE)
    output = shell.ok(*command.split(), WIDE)
    assert f"{row['bytes_current']:,}" in output.split()
    assert not re.search("[┃│━─…]", output)

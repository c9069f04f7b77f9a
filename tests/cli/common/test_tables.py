"""Tables of the command line never cut what one must copy."""

import re
from pathlib import Path

import pytest
from rich.console import Console

import postroom.cli
from postroom.cli.common.tables import new_table, show_table
from postroom.client import ConnectionFactory, Message, Xid
from tests.cli.shell import Shell
from tests.server.harness import BrokerThread

pytestmark = pytest.mark.sockets

LONG_NAME = f"{'orders.of.the.day.' * 8}end"


def test_xids_and_names_are_whole_in_a_pipe(broker: BrokerThread, shell: Shell) -> None:
    xid = Xid(1, b"g" * 64, b"b" * 64)
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_xa_session()
        resource = session.xa_resource
        resource.start(xid)
        session.create_producer(LONG_NAME).send(Message("a", message_id=f"ID:{'m' * 200}"))
        resource.end(xid)
        (row,) = shell.json("transaction", "list", "xa")
        assert str(row["name"]) in words(shell.ok("transaction", "list"))
        assert LONG_NAME in words(shell.ok("queue", "list"))
        resource.rollback(xid)
    shell.ok("queue", "purge", LONG_NAME)
    shell.ok("put", LONG_NAME, "a")
    (listed,) = shell.json("message", "list", LONG_NAME)
    assert str(listed["message_id"]) in words(shell.ok("message", "list", LONG_NAME))
    assert str(listed["message_id"]) in words(shell.ok("browse", LONG_NAME))
    assert LONG_NAME in words(shell.ok("queue", "show", LONG_NAME))


def words(text: str) -> list[str]:
    return text.split()


def test_on_a_terminal_a_long_cell_goes_on_in_the_next_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "rich.console.Console",
        lambda **options: Console(force_terminal=True, width=40, color_system=None),
    )
    table = new_table("name", "more", "count", numbers=("count",))
    table.add_row(LONG_NAME, "x" * 100, "1,000")
    show_table(table)
    output = capsys.readouterr().out
    assert "…" not in output and max(map(len, output.splitlines())) <= 40
    letters = re.sub(r"[^a-wyz.]", "", output.partition("count")[2])
    assert letters == LONG_NAME and output.count("x") == 100


def test_every_table_is_made_alike() -> None:
    """But for the view of `top`, which fits the terminal."""
    folder = Path(postroom.cli.__file__).parent
    makers = {path.name for path in folder.rglob("*.py") if re.search(r"\bTable\(", path.read_text())}
    assert makers == {"tables.py", "top_view.py"}

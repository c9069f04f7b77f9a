"""The command group that everything else hangs on. A command's module is imported on first use."""

import importlib
import os
from types import ModuleType
from typing import Final, NamedTuple

import click
from click.shell_completion import CompletionItem

from postroom import __version__
from postroom.cli.groups import Group

BROKER_MODULES: Final = ("fcntl", "isal", "numpy", "uvloop")
"""What Windows has not, or what is installed on Linux alone, and without which the files of a broker can't be
worked on.
"""

_MARGINS: Final = 6
"""Columns that click leaves empty in a list of commands."""


class _Command(NamedTuple):
    module: str
    """Below ``postroom.cli``; there it has its own name, with _ for -."""
    help: str
    """In one line, said again here so that a list of commands needs none of their modules."""


COMMANDS: Final = {
    "serve": _Command("broker.serve", "Run a broker until it is told to stop (SIGTERM, Ctrl-C)."),
    "queue": _Command("queues.queue", "Queues of a running broker."),
    "topic": _Command("queues.topic", "Topics of a running broker."),
    "subscription": _Command("queues.topic", "Subscriptions to topics of a running broker."),
    "remote-queue": _Command("queues.remote_queue", "Remote queues and aliases of a running broker."),
    "quota": _Command("queues.quota", "Quotas of a running broker."),
    "definitions": _Command(
        "definitions.definitions",
        "Definitions of a running broker as a file: queues, topics, subscriptions, quotas, channels, users.",
    ),
    "channel": _Command("broker.channel", "Channels of a running broker to other queue managers."),
    "message": _Command("messages.message", "Messages on the queues of a running broker, in whatever state."),
    "dlq": _Command("messages.dlq", "Dead-letter queues of a running broker."),
    "member": _Command("broker.member", "Members of a replicated queue manager, asked of the active one."),
    "status": _Command(
        "broker.status", "Show how the broker of a data folder on this machine is, for probes, too."
    ),
    "top": _Command("broker.top", "Watch channels, queues, connections and members of a running broker."),
    "broker": _Command("broker.broker", "The running broker as a whole."),
    "connection": _Command("broker.broker", "Connections to a running broker."),
    "transaction": _Command("messages.transaction", "Open transactions and XA branches of a running broker."),
    "sink": _Command("spark.sink", "Spark jobs that write to queues of a running broker."),
    "spark-subscription": _Command(
        "spark.spark_subscription", "Spark queries that consume queues of a running broker."
    ),
    "store": _Command(
        "messages.store",
        "The message store of a queue: put, get and browse in two steps, with confirm ids and locks.",
    ),
    "put": _Command(
        "messages.put", "Send messages to QUEUE: each BODY, each file; else standard input as one."
    ),
    "get": _Command("messages.get", "Take messages from QUEUE and print their bodies."),
    "browse": _Command("messages.get", "Show the messages on QUEUE and leave them there."),
    "user": _Command("broker.user", "Users of a running broker."),
    "role": _Command(
        "broker.user", "Roles of a running broker: rights that users, and other roles, have together."
    ),
    "grant": _Command("broker.user", "Grant RIGHTS (`put,get`, or `all`) to a user or a role, at once."),
    "revoke": _Command(
        "broker.user",
        "Take RIGHTS that were granted on just that from a user or a role: links that needed them end.",
    ),
    "rights": _Command("broker.user", "Show what the user or role NAME may do, and by which roles."),
    "token": _Command("broker.token", "Tokens for reading a broker over HTTP."),
    "ledger": _Command("ledger.ledger", "The record of every message: check it, list it, count it."),
    "pipeline": _Command(
        "spark.pipeline", "Tables of the ledger, by Spark: where each message is and how it got there."
    ),
    "job": _Command(
        "spark.job",
        "Jobs that act on the messages of queues: what a look at the ledger decides, the broker carries out.",
    ),
    "audit": _Command(
        "spark.audit",
        "Prove from the ledger that no message was lost or made twice, or say where that fails.",
    ),
    "report": _Command(
        "spark.report",
        "Draw where the messages went: one HTML file that needs nothing beside it, in light and dark.",
    ),
    "state": _Command(
        "spark.state",
        "Show what is on QUEUE, or was at a time: each message with its state, since when, and why.",
    ),
    "trace": _Command(
        "ledger.trace", "Show what happened to a message, and to what was made of it, from its arrival on."
    ),
}


class LazyGroup(Group):
    """Imports a command's module on first use, so that `postroom put` does not wait for numpy. Help and shell
    completion, which list all commands, import none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = _imported(COMMANDS[cmd_name].module, cmd_name)
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest = formatter.width - _MARGINS - max(map(len, COMMANDS))
        with formatter.section("Commands"):
            formatter.write_dl([(name, _short_help(name, longest)) for name in COMMANDS])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        commands = [
            CompletionItem(name, help=_short_help(name)) for name in COMMANDS if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]


def _imported(module: str, cmd_name: str) -> ModuleType:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy starts one for each core, for algebra
    try:
        return importlib.import_module(f"postroom.cli.{module}")
    except ModuleNotFoundError as error:
        if error.name not in BROKER_MODULES:
            raise
        what = f"{cmd_name} is built on the broker's own parts and runs where it does, on Linux: "
        raise click.ClickException(f"{what}{error.name} is missing here") from error


def _short_help(name: str, longest: int = 45) -> str:
    """A command's help as click shortens it."""
    return click.Command(name, help=COMMANDS[name].help).get_short_help_str(longest)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="postroom")
def main() -> None:
    """A message broker that accounts for every message.

    \b
    First steps:
      postroom serve                 in one terminal: a broker with its data in ./postroom-data
      postroom put orders hello      in another: a message for the queue orders
      postroom queue list            what there is
      postroom get orders            take the message

    A broker elsewhere: --url, or the variable POSTROOM_URL. With --json there is JSON, an object a line.
    Each command says more with --help.

    Exit codes: 0 done; 2 the command line can't be used; 3 the broker can't be reached, or refused; 4 there
    is nothing of this kind; 1 any other error.
    """

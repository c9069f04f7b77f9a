"""The command group that everything else hangs on. A command's module is imported on first use."""

import importlib
from typing import Final

import click

from postroom import __version__

COMMANDS: Final = {
    "serve": ("postroom.cli.serve", "serve"),
    "queue": ("postroom.cli.queue", "queue"),
    "topic": ("postroom.cli.topic", "topic"),
    "subscription": ("postroom.cli.subscription", "subscription"),
    "remote-queue": ("postroom.cli.remote_queue", "remote_queue"),
    "quota": ("postroom.cli.quota", "quota"),
    "channel": ("postroom.cli.channel", "channel"),
    "message": ("postroom.cli.message", "message"),
    "dlq": ("postroom.cli.dlq", "dlq"),
    "top": ("postroom.cli.top", "top"),
    "broker": ("postroom.cli.broker", "broker"),
    "connection": ("postroom.cli.broker", "connection"),
    "transaction": ("postroom.cli.transaction", "transaction"),
    "sink": ("postroom.cli.sink", "sink"),
    "spark-subscription": ("postroom.cli.spark_subscription", "spark_subscription"),
    "store": ("postroom.cli.store", "store"),
    "put": ("postroom.cli.put", "put"),
    "get": ("postroom.cli.get", "get"),
    "browse": ("postroom.cli.get", "browse"),
    "user": ("postroom.cli.user", "user"),
    "token": ("postroom.cli.token", "token"),
    "ledger": ("postroom.cli.ledger", "ledger"),
    "pipeline": ("postroom.cli.pipeline", "pipeline"),
    "job": ("postroom.cli.job", "job"),
    "audit": ("postroom.cli.audit", "audit"),
    "report": ("postroom.cli.report", "report"),
    "state": ("postroom.cli.state", "state"),
    "trace": ("postroom.cli.trace", "trace_command"),
}


class LazyGroup(click.Group):
    """Imports a command's module on first use, so that `postroom put` does not wait for numpy."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        command = getattr(importlib.import_module(place[0]), place[1])
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="postroom")
def main() -> None:
    """A message broker that accounts for every message."""

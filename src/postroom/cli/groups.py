"""Groups of commands, which list each with its whole help, and tell the nearest to one that isn't there; and
options of one line.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


class Option(Protocol):
    """What gives a command an option."""

    def __call__(self, command: Command, /) -> Command: ...


WHOLE: Final = 1000
"""Characters of a command's first sentence: click shortens what is longer."""
HINTED_COMMANDS: Final = 3


class Group(click.Group):
    """As click has it, but for that."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            if args[0] in self.list_commands(ctx):
                raise
            import difflib  # help and completion, which are to be quick, need none

            near = difflib.get_close_matches(args[0].casefold(), self.list_commands(ctx), HINTED_COMMANDS)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(WHOLE)) for name, command in found if command]
            )


def number_option(
    *names: str,
    help: str,
    least: float = 1,
    most: float | None = None,
    fractions: bool = False,
    metavar: str = "N",
    **more: Any,
) -> Option:
    """The option of a number from ``least`` to ``most``."""
    kind = click.FloatRange if fractions else click.IntRange
    return click.option(*names, type=kind(least, most), metavar=metavar, help=help, **more)  # type: ignore[arg-type]


def folder_option(*names: str, help: str) -> Option:
    """The option of a folder."""
    kind = click.Path(path_type=Path, file_okay=False)
    return click.option(*names, type=kind, metavar="FOLDER", help=help)


def count_option(help: str, default: int = 0, least: int = 0, shows_default: bool = True) -> Option:
    """The option ``--count``."""
    return number_option("--count", "-n", default=default, show_default=shows_default, least=least, help=help)

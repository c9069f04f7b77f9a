"""`postroom serve`: run a broker."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from postroom.server.exits import Exit, StartError
from postroom.server.operating_system import check_system

if TYPE_CHECKING:
    from postroom.server.configuration.config import Config, ListenConfig


@click.command()
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A TOML file; default: none is needed.",
)
@click.option("--listen", multiple=True, metavar="HOST:PORT", help="Listen here instead; may be given again.")
@click.option("--data", metavar="FOLDER", help="Keep the ledger here instead.")
@click.option("--json-logs", is_flag=True, help="Write logs as JSON.")
def serve(config_file: Path | None, listen: tuple[str, ...], data: str | None, json_logs: bool) -> None:
    """Run a broker until it is told to stop (SIGTERM, Ctrl-C).

    Without any option: AMQP on 127.0.0.1:5672, data in ./postroom-data.
    """
    try:
        check_system()
        code = _run(config_file, listen, data, json_logs)
    except StartError as error:
        click.echo(f"postroom: {' '.join(str(error).split())}", err=True)
        raise SystemExit(error.code) from None
    raise SystemExit(code)


def _run(config_file: Path | None, listen: tuple[str, ...], data: str | None, json_logs: bool) -> Exit:
    """The broker's modules are imported here: help needs none of them, and not every system has what they
    need."""
    from postroom.server.configuration.config import Config
    from postroom.server.configuration.config_file import ConfigError, load_config
    from postroom.server.logs import set_up
    from postroom.server.start import serve as run

    try:
        config = _overridden(load_config(config_file) if config_file else Config(), listen, data)
        set_up(config.log.json or json_logs, config.log.level)
        return run(config)
    except ConfigError as error:
        raise StartError(Exit.CONFIGURATION, str(error)) from error


def _overridden(config: "Config", listen: tuple[str, ...], data: str | None) -> "Config":
    import msgspec

    if listen:
        config = msgspec.structs.replace(config, listen=[_listener(address) for address in listen])
    if data is not None:
        config = msgspec.structs.replace(config, data=data)
    return config


def _listener(address: str) -> "ListenConfig":
    from postroom.server.configuration.config import ListenConfig
    from postroom.server.configuration.values import PlacedError

    try:
        return ListenConfig(address=address)
    except PlacedError as error:
        raise StartError(Exit.CONFIGURATION, f"--listen: {error}") from error

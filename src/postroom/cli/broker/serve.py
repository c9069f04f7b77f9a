"""`postroom serve`: run a broker."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from postroom.server.exits import Exit, StartError
from postroom.server.operating_system import check_system

if TYPE_CHECKING:
    from postroom.server.configuration.config import Config
    from postroom.server.configuration.http import HttpConfig
    from postroom.server.configuration.listening import ListenConfig

HTTP_OFF = "off"


@click.command()
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A TOML file; default: none is needed.",
)
@click.option("--listen", multiple=True, metavar="HOST:PORT", help="Listen here instead; may be given again.")
@click.option("--http", metavar="HOST:PORT|off", help="Serve HTTP here instead, or not at all.")
@click.option("--data", metavar="FOLDER", help="Keep the ledger here instead.")
@click.option("--json-logs", is_flag=True, help="Write logs as JSON.")
def serve(
    config_file: Path | None, listen: tuple[str, ...], http: str | None, data: str | None, json_logs: bool
) -> None:
    """Run a broker until it is told to stop (SIGTERM, Ctrl-C). SIGHUP has it read FILE anew.

    Without any option: AMQP on 127.0.0.1:5672, HTTP on 127.0.0.1:8161, data in ./postroom-data. With another
    port for AMQP, HTTP needs --http.
    """
    try:
        check_system()
        code = _run(config_file, listen, http, data, json_logs)
    except StartError as error:
        click.echo(f"postroom: {' '.join(str(error).split())}", err=True)
        raise SystemExit(error.code) from None
    raise SystemExit(code)


def _run(
    config_file: Path | None, listen: tuple[str, ...], http: str | None, data: str | None, json_logs: bool
) -> Exit:
    """The broker's modules are imported here: help needs none of them, and not every system has what they
    need."""
    from postroom.server.configuration.config import Config
    from postroom.server.configuration.config_file import ConfigError, load_config
    from postroom.server.configuration.file_modes import warn_of_readers
    from postroom.server.logs import set_up
    from postroom.server.start import serve as run

    def read() -> Config:
        return _overridden(load_config(config_file) if config_file else Config(), listen, http, data)

    try:
        config = read()
        set_up(config.log.json or json_logs, config.log.level)
        if config_file and config.users:
            warn_of_readers(config_file)
        return run(config, read)
    except ConfigError as error:
        raise StartError(Exit.CONFIGURATION, str(error)) from error


def _overridden(config: "Config", listen: tuple[str, ...], http: str | None, data: str | None) -> "Config":
    import msgspec

    from postroom.server.configuration.values import PlacedError

    if listen:
        listeners = [_listener(address) for address in listen]
        try:
            config = msgspec.structs.replace(config, listen=listeners)
        except PlacedError as error:
            raise StartError(Exit.CONFIGURATION, f"with --listen: {error}") from error
    if http is not None:
        config = msgspec.structs.replace(config, http=_http(config.http, http))
    if data is not None:
        config = msgspec.structs.replace(config, data=data)
    return config


def _http(configured: "HttpConfig | None", wanted: str) -> "HttpConfig":
    """What is configured, at that address, or switched off."""
    import msgspec

    from postroom.server.configuration.http import HttpConfig
    from postroom.server.configuration.values import PlacedError

    known = configured or HttpConfig()
    if wanted == HTTP_OFF:
        return msgspec.structs.replace(known, enabled=False)
    try:
        return msgspec.structs.replace(known, address=wanted, enabled=True)
    except PlacedError as error:
        raise StartError(Exit.CONFIGURATION, f"--http: {error}") from error


def _listener(address: str) -> "ListenConfig":
    from postroom.server.configuration.listening import ListenConfig
    from postroom.server.configuration.values import PlacedError

    try:
        return ListenConfig(address=address)
    except PlacedError as error:
        raise StartError(Exit.CONFIGURATION, f"--listen: {error}") from error

"""What the commands that talk to a running broker share: the connection, and errors in one line."""

import contextlib
import errno
import functools
import json
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from postroom.amqp.errors import CONNECTION_FRAMING_ERROR
from postroom.cli.common.names import hint_at_names
from postroom.client import (
    ClientOptions,
    Connection,
    ConnectionFactory,
    ConnectionLostException,
    InvalidDestinationException,
    JMSException,
    JMSSecurityException,
    TlsOptions,
)
from postroom.client.connection.connector import CERTIFICATE_VARIABLE, KEY_VARIABLE
from postroom.client.connection.url import BrokerUrl, parse_url

URL_VARIABLE: Final = "POSTROOM_URL"
DEFAULT_URL: Final = "amqp://127.0.0.1:5672"
EXIT_BROKER: Final = 3
"""The broker could not be reached, or refused the request."""
EXIT_NOTHING: Final = 4
"""There was no message to get."""
EVERY_OUTCOME: Final = ClientOptions(force_sync_send=True)
"""A command is asked for once, and says how it went: of non-persistent messages, too."""

_REQUEST: Final = re.compile(r"^[A-Z-]+ postroom\.[a-z-]+(?: [^:]*(?:::[^:]*)?)?: ")
"""How the text of a refused request of management begins."""

_NUMBERS: Final = re.compile(r"\[Errno (-?\d+)\]")
"""Of a name with several addresses, asyncio tells all failures in one text."""

Command = TypeVar("Command", bound=Callable[..., Any])


class BrokerError(click.ClickException):
    """A request failed; printed as one line."""

    exit_code = EXIT_BROKER

    def format_message(self) -> str:
        return " ".join(self.message.split())


def url_option(command: Command) -> Command:
    """The options ``--url``, ``--certificate`` and ``--key``; the last two are for `own_tls`."""
    command = _file_option("--key", KEY_VARIABLE, "its private key, unless it is in that file")(command)
    command = _file_option("--certificate", CERTIFICATE_VARIABLE, "a certificate to show the broker")(command)
    return click.option(
        "--url",
        envvar=URL_VARIABLE,
        metavar="URL",
        default=DEFAULT_URL,
        show_default=True,
        help=f"The broker: amqp[s]://[USER[:PASSWORD]@]HOST[:PORT]; also from {URL_VARIABLE}.",
    )(command)


def _file_option(flag: str, variable: str, what: str) -> Callable[[Command], Command]:
    def keep(context: click.Context, parameter: click.Parameter, file: Path | None) -> None:
        context.meta[variable] = file

    return click.option(
        flag,
        envvar=variable,
        type=click.Path(path_type=Path),
        metavar="FILE",
        callback=keep,
        expose_value=False,
        help=f"PEM file with {what}; also from {variable}.",
    )


def own_tls() -> TlsOptions | None:
    """What the command that is under way has of its own for TLS, as `url_option` has it."""
    meta = click.get_current_context().meta
    certificate, key = meta.get(CERTIFICATE_VARIABLE), meta.get(KEY_VARIABLE)
    return None if certificate is None else TlsOptions(certificate_file=certificate, key_file=key)


def json_option(command: Command) -> Command:
    """The option ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")(command)


def wide_option(command: Command) -> Command:
    """The option ``--wide``."""
    return click.option("--wide", "is_wide", is_flag=True, help="Show more of each.")(command)


def settings_option(command: Command) -> Command:
    """The option ``--set``, which may be given often."""
    return click.option(
        "settings",
        "--set",
        multiple=True,
        metavar="KEY=VALUE",
        help="A setting, as in the configuration; may be given again.",
    )(command)


def setting(text: str) -> tuple[str, Any]:
    """Key and value of ``KEY=VALUE``; the value as JSON where it is that, else as it stands. A setting of a
    queue that is text stays text: ``consumption_paused_at_startup=true``."""
    key, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--set")
    try:
        parsed = json.loads(value)
    except json.JSONDecodeError:
        return key, value
    return key, value if key in _texts() and not isinstance(parsed, str) else parsed


@functools.cache
def _texts() -> frozenset[str]:
    """The settings of a queue that are text."""
    from postroom.manager.kernel.options import QueueDefinition
    from postroom.model.settings import types_of

    return frozenset(name for name, kind in types_of(QueueDefinition).items() if kind is str)


def _description(error: JMSException) -> str:
    """What the broker says, without the name of the request that the command has made."""
    return _REQUEST.sub("", str(error), count=1)


@contextlib.contextmanager
def connected(url: str, name: str = "") -> Iterator[Connection]:
    """A connection to the broker; whatever the client raises inside becomes one line and an exit code.

    ``name`` is the queue, topic or subscription that the command is about: where there is none, names like it
    are told.
    """
    try:
        factory = ConnectionFactory(url, options=EVERY_OUTCOME, tls=own_tls())
    except JMSSecurityException as error:
        raise BrokerError(str(error)) from error
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--url") from error
    try:
        opened = factory.create_connection()
    except JMSException as error:
        raise BrokerError(why_not_connected(error, parse_url(url).brokers)) from error
    try:
        with opened as connection:
            try:
                yield connection
            except InvalidDestinationException as error:
                raise BrokerError(f"{_description(error)}{hint_at_names(connection, name)}") from error
    except JMSException as error:
        raise BrokerError(_description(error)) from error


def requested(url: str, operation: str, kind: str, name: str, hint: str = "") -> dict[str, Any]:
    """What the broker answers to one request about the thing NAME of that kind; ``hint``: see `connected`."""
    with connected(url, hint) as connection:
        return connection.create_management().request(operation, kind=kind, name=name).attributes()


def why_not_connected(error: JMSException, brokers: tuple[BrokerUrl, ...]) -> str:
    """One line. ``error`` is what the client raised instead of connecting to one of ``brokers``."""
    places = " or ".join(str(each).partition("://")[2] for each in brokers)
    cause = error.__cause__
    if isinstance(cause, OSError) and _is_refused(cause):
        return f"no broker listens on {places}: start one with `postroom serve`, or name another with --url"
    if isinstance(cause, socket.gaierror):
        return f"there is no host of this name: {places} ({cause.strerror}): see --url and {URL_VARIABLE}"
    if len(brokers) > 1:
        return str(error)
    return _of_one(error, brokers[0], places)


def _of_one(error: JMSException, broker: BrokerUrl, place: str) -> str:
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {place} is not trusted: {cause.verify_message}: SSL_CERT_FILE names a file"
            " with the authority's certificate"
        )
    if isinstance(cause, (ssl.SSLError, ConnectionResetError)) and broker.tls:
        return f"{place} doesn't speak TLS: say amqp:// and not amqps://, or another port ({cause})"
    if isinstance(error, JMSSecurityException):
        return _of_sign_in(error, broker, place)
    if not isinstance(error, ConnectionLostException) or cause is not None:
        return str(error)
    if error.condition == CONNECTION_FRAMING_ERROR:
        return f"what listens on {place} is no AMQP 1.0 broker: {error.description}"
    if error.condition is not None:
        return str(error)
    if broker.tls:
        return (
            f"{place} ended the connection at once, as a broker does that wants a certificate"
            " (--certificate), or another one: its acts say why"
        )
    return (
        f"{place} ended the connection at once, as a port for TLS does (say amqps://), or what is no"
        " AMQP 1.0 broker"
    )


def _of_sign_in(error: JMSException, broker: BrokerUrl, place: str) -> str:
    if broker.user is None:
        url = str(broker).replace("://", "://USER:PASSWORD@")
        return f"the broker on {place} wants a user and a password: say --url {url}"
    return f"the broker on {place} doesn't know the user {broker.user!r} with this password ({error})"


def _is_refused(error: OSError) -> bool:
    numbers = {int(each) for each in _NUMBERS.findall(str(error))}
    return isinstance(error, ConnectionRefusedError) or numbers == {errno.ECONNREFUSED}

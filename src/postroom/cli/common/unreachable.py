"""Why a command has got no connection to a broker, in the words of who typed it, and what to do."""

import errno
import re
import socket
import ssl
from typing import Final

from postroom.amqp.errors import CONNECTION_FRAMING_ERROR
from postroom.client import ConnectionLostException, JMSException, JMSSecurityException
from postroom.client.connection.url import BrokerUrl

URL_VARIABLE: Final = "POSTROOM_URL"
_NUMBERS: Final = re.compile(r"\[Errno (-?\d+)\]")
"""Of a name with several addresses, asyncio tells all failures in one text."""


def why_not_connected(error: JMSException, brokers: tuple[BrokerUrl, ...]) -> str:
    """One line. ``error`` is what the client raised instead of connecting to one of ``brokers``."""
    places = " or ".join(_place(each) for each in brokers)
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
    return (
        f"{place} ended the connection at once, as a port for TLS does (say amqps://), or what is no"
        " AMQP 1.0 broker"
    )


def _of_sign_in(error: JMSException, broker: BrokerUrl, place: str) -> str:
    if broker.user is None:
        return f"the broker on {place} wants a user and a password: say --url {_with_user(broker, 'USER')}"
    return f"the broker on {place} doesn't know the user {broker.user!r} with this password ({error})"


def _with_user(broker: BrokerUrl, user: str) -> str:
    return str(broker).replace("://", f"://{user}:PASSWORD@")


def _place(broker: BrokerUrl) -> str:
    return str(broker).partition("://")[2]


def _is_refused(error: OSError) -> bool:
    numbers = {int(each) for each in _NUMBERS.findall(str(error))}
    return isinstance(error, ConnectionRefusedError) or numbers == {errno.ECONNREFUSED}

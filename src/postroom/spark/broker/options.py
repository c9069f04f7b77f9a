"""The options ``broker`` and ``tls…``: where the broker is, and whom to trust there. Needs no Spark."""

from dataclasses import dataclass

from postroom.client.connection.connector import TlsOptions
from postroom.client.connection.url import parse_url
from postroom.spark.data_source.option_reader import OptionReader


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the broker is, and whom to trust there."""

    url: str
    tls: TlsOptions | None


def read_broker(options: OptionReader) -> Broker:
    """Raises what the reader refuses with; passwords are in no error."""
    url = options.needed("broker", "amqp://user:password@host:port, or amqps://").strip()
    try:
        parse_url(url)
    except ValueError as error:
        raise options.refusal(f'option "broker": {error}') from None
    tls = TlsOptions(
        ca_file=options.text("tlsCaFile") or None,
        certificate_file=options.text("tlsCertificateFile") or None,
        key_file=options.text("tlsKeyFile") or None,
        key_password=options.text("tlsKeyPassword") or None,
        verify_host=options.flag("tlsVerifyHost", True),
    )
    return Broker(url, None if tls == TlsOptions() else tls)

"""The table ``[http]`` of the configuration."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from postroom.server.addresses import is_loopback, split_address
from postroom.server.configuration.listening import ListenConfig
from postroom.server.configuration.values import PlacedError, Positive

DEFAULT_HTTP_PORT: Final = 8161


class HttpConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the broker serves its API, its metrics and its ledger over HTTP.

    Without the table it does so at the default address where it takes AMQP on this machine alone, on port
    5672.
    """

    enabled: bool = True
    """false: it doesn't."""
    address: str = f"127.0.0.1:{DEFAULT_HTTP_PORT}"
    """`HOST:PORT`, as of [`[[listen]]`](#listen); bound before the ledger is opened."""
    tls_certificate: str | None = None
    """PEM file with the certificate chain; makes it HTTPS."""
    tls_key: str | None = None
    """PEM file with the private key; unset: it is in the certificate's file."""
    tls_client_ca: str | None = None
    """PEM file with the authorities whose client certificates are taken, as of a [listener](#listen): clients
    show one beside their token."""
    tls_client_certificate: Literal["require", "request"] | None = None
    """As of a listener; a certificate that is only asked for must be good where it is shown."""
    tls_revocation_list: str | None = None
    """As of a listener."""
    plain: bool = False
    """Serve without TLS where other machines can reach it, for a proxy in front that has it; otherwise such
    an address needs a certificate."""
    tokens: str = ""
    """File of [`postroom token`](http.md#tokens); empty: `http-tokens.json` in the data folder."""
    open_health: bool | None = None
    """Whether `/health` needs no token; unset: yes on a loopback address, no elsewhere."""
    open_metrics: bool | None = None
    """Whether `/metrics` needs no token; unset: yes on a loopback address, no elsewhere."""
    max_connections: Positive = 256
    """One more is answered 503."""
    max_requests: Positive = 16
    """In work at a time, all callers; one more is answered 429."""
    max_requests_per_s: Annotated[int, Meta(ge=1, le=100_000)] = 100
    """Of one token, or of one address without; one more is answered 429."""
    max_records_bytes: Annotated[int, Meta(ge=64 << 10, le=256 << 20)] = 8 << 20
    """Of the journal in one answer; what is left is asked for again."""
    max_messages_bytes: Annotated[int, Meta(ge=64 << 10, le=256 << 20)] = 8 << 20
    """Of bodies in one answer; what is left is asked for again."""
    request_timeout_ms: Positive = 10_000
    """Time from accept, or from the last answer, to a whole request; then the connection is closed."""
    send_timeout_ms: Positive = 30_000
    """An answer of which the reader takes nothing for so long is given up."""

    console: bool = True
    """Whether the [web console](console.md) is served, at `/`."""
    max_body_bytes: Annotated[int, Meta(ge=64 << 10, le=64 << 20)] = 4 << 20
    """Of a request to the API; a longer one is answered 413."""
    max_management_requests: Positive = 100
    """To the management node under way at a time, all callers; one more is answered 429."""
    management_timeout_ms: Positive = 60_000
    """A request to the management node that takes longer is cancelled, and answered 504."""
    max_streams: Positive = 64
    """Streams of figures, and requests that wait for messages, at a time; one more is answered 429."""
    accounts: str = ""
    """A folder with what audits and the pipeline have found, which the console shows: `audit.json`,
    `report.html`, `pipeline.json`; empty: it shows how to make them."""
    hosts: list[str] = []
    """Names by which browsers reach the broker, as their `Host` header has them, without the port: needed on
    a loopback address behind a proxy or a tunnel. Unset: `localhost` and loopback addresses on a loopback
    address, any name elsewhere."""
    max_sessions: Positive = 1000
    """Of users who have signed in by name and password; one more is answered 503."""
    session_idle_s: Positive = 1800
    """A session without a request for so long has ended."""
    session_lifetime_s: Positive = 43_200
    """Longer no session lasts."""

    def __post_init__(self) -> None:
        try:
            host, _ = split_address(self.address, DEFAULT_HTTP_PORT)
        except ValueError as error:
            raise PlacedError(("address",), str(error)) from error
        self.listen()
        if not (is_loopback(host) or self.tls_certificate or self.plain):
            what = (
                f"{self.address!r} can be reached from other machines, and tokens would cross the network"
                " readable: give tls_certificate, or plain = true behind a proxy that has TLS"
            )
            raise PlacedError(("address",), what)

    def listen(self) -> ListenConfig:
        """The same as a listener. Raises `PlacedError` for files of TLS that don't go together."""
        host, port = split_address(self.address, DEFAULT_HTTP_PORT)
        return ListenConfig(
            address=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
            tls_certificate=self.tls_certificate,
            tls_key=self.tls_key,
            tls_client_ca=self.tls_client_ca,
            tls_client_certificate=self.tls_client_certificate,
            tls_revocation_list=self.tls_revocation_list,
        )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(split_address(self.address, DEFAULT_HTTP_PORT)[0])

    @property
    def serves_open_health(self) -> bool:
        return self.is_loopback if self.open_health is None else self.open_health

    @property
    def serves_open_metrics(self) -> bool:
        if self.open_metrics is not None:
            return self.open_metrics
        return self.is_loopback

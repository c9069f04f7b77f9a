"""The tables ``[[listen]]`` and ``[users]``: where connections are taken, and by what their users sign in."""

from collections.abc import Mapping
from typing import Literal

from postroom.amqp.frames.sasl import (
    ANONYMOUS,
    EXTERNAL,
    PLAIN,
    TOKEN_MECHANISMS,
    binds_channel,
    without_binding,
)
from postroom.server.addresses import DEFAULT_PORT, is_loopback, split_address
from postroom.server.configuration.limits import TrafficLimits
from postroom.server.configuration.passwords import (
    BOUND_MECHANISMS,
    SCRAM_MECHANISMS,
    PasswordHashError,
    parse_hash,
    scheme_of,
)
from postroom.server.configuration.values import PlacedError
from postroom.server.configuration.websocket import WebSocketConfig

Mechanism = Literal[
    "EXTERNAL",
    "SCRAM-SHA-512-PLUS",
    "SCRAM-SHA-256-PLUS",
    "SCRAM-SHA-512",
    "SCRAM-SHA-256",
    "PLAIN",
    "OAUTHBEARER",
    "XOAUTH2",
]
"""By what users sign in."""


class ListenConfig(TrafficLimits, frozen=True, forbid_unknown_fields=True):
    """One address to accept connections on."""

    address: str = f"127.0.0.1:{DEFAULT_PORT}"
    """`HOST:PORT`; IPv6 in brackets: `[::1]:5672`; a host name stands for all its addresses that this machine
    has; `0.0.0.0` for every interface."""
    anonymous: bool | None = None
    """Whether a client needs no password (SASL ANONYMOUS, or no SASL at all); unset: yes on a loopback
    address, no elsewhere."""
    tls_certificate: str | None = None
    """PEM file with the certificate chain; makes this a TLS listener."""
    tls_key: str | None = None
    """PEM file with the private key; unset: it is in the certificate's file."""
    tls_client_ca: str | None = None
    """PEM file with the authorities whose client certificates are taken; clients are asked for one then."""
    tls_client_certificate: Literal["require", "request"] | None = None
    """Whether a client needs a certificate, or is only asked for one; unset: it needs one where
    `tls_client_ca` is given. One that isn't good fails the handshake in either case."""
    tls_revocation_list: str | None = None
    """PEM file with the revocation lists (CRL) of all authorities of `tls_client_ca`; a certificate in them
    fails the handshake, and so do all of an authority whose list has ended."""
    mechanisms: list[Mechanism] | None = None
    """By which SASL mechanisms users sign in, best first; unset: by EXTERNAL where `tls_client_ca` is given,
    by each of SCRAM that every user with a password has a verifier for, over TLS first with [channel
    binding](#channel-binding) (`SCRAM-SHA-512-PLUS`, `SCRAM-SHA-256-PLUS`), and by PLAIN and, with
    `[oauth]`, by OAUTHBEARER and XOAUTH2 where nobody else can read what is sent (TLS, or a loopback
    address)."""
    websocket: WebSocketConfig | None = None
    """Makes this a listener for [AMQP over WebSocket](amqp.md#over-websocket), in clear or with TLS, and for
    nothing else: `websocket = {}`, or `websocket = { path = "/mq" }`."""

    def __post_init__(self) -> None:
        try:
            split_address(self.address)
        except ValueError as error:
            raise PlacedError(("address",), str(error)) from error
        if self.tls_key is not None and self.tls_certificate is None:
            raise PlacedError(("tls_key",), "without tls_certificate: name the certificate's file too")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            what = "without tls_certificate: only a TLS listener sees certificates of clients"
            raise PlacedError(("tls_client_ca",), what)
        for key in ("tls_client_certificate", "tls_revocation_list"):
            if getattr(self, key) is not None and self.tls_client_ca is None:
                raise PlacedError((key,), "without tls_client_ca: say whose client certificates are taken")

        bound = [each for each in self.mechanisms or [] if binds_channel(each)]
        if bound and self.tls_certificate is None:
            what = f"{bound[0]} without tls_certificate: only TLS has a channel that can be bound to"
            raise PlacedError(("mechanisms",), what)
        if EXTERNAL in (self.mechanisms or []) and self.tls_client_ca is None:
            what = "EXTERNAL without tls_client_ca: say whose client certificates are taken"
            raise PlacedError(("mechanisms",), what)

    @property
    def host(self) -> str:
        return split_address(self.address)[0]

    @property
    def port(self) -> int:
        return split_address(self.address)[1]

    @property
    def client_certificate(self) -> str:
        """`require`, `request`, or nothing where clients aren't asked for certificates."""
        return "" if self.tls_client_ca is None else self.tls_client_certificate or "require"

    @property
    def allows_anonymous(self) -> bool:
        return is_loopback(self.host) if self.anonymous is None else self.anonymous

    @property
    def takes_certificates(self) -> bool:
        """Whether users sign in by certificate here."""
        return self.tls_client_ca is not None and (self.mechanisms is None or EXTERNAL in self.mechanisms)

    @property
    def is_private(self) -> bool:
        """Whether nobody else can read what is sent."""
        return self.tls_certificate is not None or is_loopback(self.host)

    def sasl_mechanisms(self, users: Mapping[str, tuple[str, ...]], tokens: bool = False) -> list[str]:
        """What is offered, best first, ANONYMOUS last; ``tokens``: whether those are taken."""
        offered: list[str] = list(self.mechanisms or [])
        if self.mechanisms is None:
            offered = [EXTERNAL] if self.takes_certificates else []
            have_passwords = any(users.values())
            bound = [] if self.tls_certificate is None else BOUND_MECHANISMS
            offered += [
                each
                for each in (*bound, *SCRAM_MECHANISMS)
                if have_passwords and not without_verifier(users, each)
            ]
            if self.is_private:
                offered += [PLAIN, *TOKEN_MECHANISMS] if tokens else [PLAIN]
        return [*offered, ANONYMOUS] if self.allows_anonymous else offered


def check_users(users: Mapping[str, tuple[str, ...]], listen: list[ListenConfig]) -> None:
    """Raises `PlacedError` for a user who can't sign in by anything that is kept of a password, nor by a
    certificate."""
    by_certificate = any(each.takes_certificates for each in listen)
    for name, stored in users.items():
        if not stored and not by_certificate:
            what = "is empty: make a password hash with `postroom user hash`, or have a listener take"
            raise PlacedError(("users", name), f"{what} certificates (tls_client_ca)")
        for text in stored:
            try:
                parse_hash(text)
            except PasswordHashError as error:
                raise PlacedError(("users", name), str(error)) from error


def without_verifier(users: Mapping[str, tuple[str, ...]], mechanism: str) -> list[str]:
    """Users with a password who can't sign in by a SCRAM mechanism."""
    scheme = without_binding(mechanism)
    return [
        name for name, stored in users.items() if stored and all(scheme_of(text) != scheme for text in stored)
    ]


def check_mechanisms(listen: list[ListenConfig], users: Mapping[str, tuple[str, ...]]) -> None:
    for index, each in enumerate(listen):
        for mechanism in each.mechanisms or []:
            scheme = without_binding(mechanism)
            without = without_verifier(users, scheme) if scheme in SCRAM_MECHANISMS else []
            if without:
                what = f"{without[0]!r} of [users] has no {scheme} verifier"
                raise PlacedError(
                    ("listen", index, "mechanisms"), f"{what}: make one with `postroom user hash`"
                )
        if users and not each.sasl_mechanisms(users):
            without = without_verifier(users, SCRAM_MECHANISMS[1])
            raise PlacedError(
                ("listen", index),
                f"nobody can sign in at {each.address!r}: PLAIN would send passwords in clear to another"
                f" machine, and {without[0]!r} of [users] has no SCRAM verifier: make one with"
                ' `postroom user hash`, use TLS, or allow it by name: mechanisms = ["PLAIN"]',
            )


def check_token_mechanisms(listen: list[ListenConfig], tokens: bool) -> None:
    """Raises `PlacedError` for a listener that names a mechanism of tokens and can't take them."""
    for index, each in enumerate(listen):
        named = [mechanism for mechanism in each.mechanisms or [] if mechanism in TOKEN_MECHANISMS]
        if named and not (tokens and each.is_private):
            what = "would send tokens in clear to another machine" if tokens else "needs [oauth]"
            raise PlacedError(("listen", index, "mechanisms"), f"{named[0]} {what}")

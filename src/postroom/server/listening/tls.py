"""TLS of a listener: its certificate, whose client certificates it takes, which of these are revoked.

All of it is read from files at the start and at SIGHUP. What is read then is whole or isn't taken: each
handshake works with one context, and the next context takes its place (`RenewableContext`). With the old one
its session tickets go, so nobody comes back on a certificate that has been revoked since.
"""

import hashlib
import logging
import re
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from postroom.amqp.frames.sasl import binds_channel
from postroom.server.access.sign_in_policy import COMMON_NAME, ClientCertificate
from postroom.server.configuration.file_modes import check_key
from postroom.server.configuration.listening import ListenConfig
from postroom.server.exits import Exit, StartError
from postroom.server.logs import log
from postroom.server.tls import no_password, reason_of, restricted

WARN_BEFORE_S: Final = 14 * 86_400
"""So long before a certificate ends, the log says so."""
VERIFY_MODES: Final = {"require": ssl.CERT_REQUIRED, "request": ssl.CERT_OPTIONAL}
UNSAFE_HASHES: Final = ("md5", "sha1")
SAFE_HASH: Final = "sha256"
_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_LIST: Final = b"X509 CRL"


class ListenerContext(ssl.SSLContext):
    """One that knows which certificate it shows."""

    end_point = b""
    """A hash of it, to which SCRAM-…-PLUS is bound; empty where RFC 5929 has none for such a certificate."""


@dataclass(frozen=True)
class LoadedTls:
    """What a listener's files have given."""

    context: ListenerContext
    certificate_end_s: float
    """When the first certificate of its chain ends, seconds since 1970."""
    revocation_end_s: float | None = None
    """When the first revocation list wants to be replaced; None: there are none, or they don't say."""


class RenewableContext(ssl.SSLContext):
    """Stands in event loops for the context that is in force when a handshake begins."""

    loaded: LoadedTls

    @classmethod
    def of(cls, loaded: LoadedTls) -> "RenewableContext":
        made = cls(ssl.PROTOCOL_TLS_SERVER)
        made.loaded = loaded
        return made

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        return self.loaded.context.wrap_bio(*args, **options)


def load_tls(config: ListenConfig) -> LoadedTls:
    """Read the files that ``config`` names, and log which certificates end soon. Raises `StartError`."""
    assert config.tls_certificate is not None
    context = restricted(ListenerContext(ssl.PROTOCOL_TLS_SERVER))
    check_key(Path(config.tls_key or config.tls_certificate))
    certificate = _File(config, "certificate", config.tls_certificate)
    chain = certificate.certificates()
    certificate.load(lambda: context.load_cert_chain(certificate.name, config.tls_key, no_password))
    if certificate.certificates() != chain:
        certificate.fail("it has changed while it was read")
    context.end_point = _end_point(chain[0])
    if not context.end_point and any(binds_channel(each) for each in config.mechanisms or []):
        certificate.fail("its signature has no hash, to which SCRAM-…-PLUS could be bound (RFC 5929)")
    end_s = certificate.first_end_s(chain)
    if config.tls_client_ca is None:
        return LoadedTls(context, end_s)
    authorities = _File(config, "authorities", config.tls_client_ca)
    known = authorities.certificates()
    authorities.first_end_s(known)
    authorities.load(lambda: context.load_verify_locations(authorities.name))
    context.verify_mode = VERIFY_MODES[config.client_certificate]
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if config.tls_revocation_list is None:
        return LoadedTls(context, end_s)
    revoked = _File(config, "revocation list", config.tls_revocation_list)
    revocation_end_s = revoked.check_lists(known)
    revoked.load(lambda: context.load_verify_locations(revoked.name))
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
    return LoadedTls(context, end_s, revocation_end_s)


def end_point(handshake: ssl.SSLObject) -> bytes:
    """What SCRAM-…-PLUS is bound to on a connection: of the certificate that it has begun with."""
    context = handshake.context
    return context.end_point if isinstance(context, ListenerContext) else b""


def _end_point(certificate: x509.Certificate) -> bytes:
    """RFC 5929, section 4.1: by the hash of its signature, and SHA-256 where that isn't safe any more."""
    try:
        algorithm = certificate.signature_hash_algorithm
    except UnsupportedAlgorithm:
        return b""
    if algorithm is None:  # as with Ed25519
        return b""
    name = SAFE_HASH if algorithm.name in UNSAFE_HASHES else algorithm.name
    return hashlib.new(name, certificate.public_bytes(Encoding.DER)).digest()


def shown_certificate(handshake: ssl.SSLObject) -> ClientCertificate | None:
    """What the client has shown, and TLS has verified; None where that is nothing."""
    encoded = handshake.getpeercert(binary_form=True)
    if encoded is None:
        return None
    found = x509.load_der_x509_certificate(encoded)
    end_us = int(found.not_valid_after_utc.timestamp() * 1e6)
    try:
        subject = found.subject.rfc4514_string()
        common_names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        names = {"subject": (subject,), COMMON_NAME: tuple(str(each.value) for each in common_names)}
        names |= _alternative_names(found)
    except ValueError:  # names that can't be read are nobody's
        return ClientCertificate("with names that can't be read", {}, end_us)
    return ClientCertificate(subject, names, end_us)


def _alternative_names(certificate: x509.Certificate) -> dict[str, tuple[str, ...]]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return {}
    alternatives = extension.value
    return {
        "dns": tuple(alternatives.get_values_for_type(x509.DNSName)),
        "email": tuple(alternatives.get_values_for_type(x509.RFC822Name)),
        "uri": tuple(alternatives.get_values_for_type(x509.UniformResourceIdentifier)),
    }


class _File:
    """One file of a listener, for errors that say which."""

    def __init__(self, config: ListenConfig, kind: str, name: str) -> None:
        self.name: Final = name
        self._kind: Final = kind
        self._address: Final = config.address

    def fail(self, why: str) -> NoReturn:
        what = f"listener {self._address}: {self._kind} {self.name} can't be used: {why}"
        raise StartError(Exit.CONFIGURATION, what)

    def load(self, into_context: Callable[[], None]) -> None:
        try:
            into_context()
        except OSError as error:
            self.fail(reason_of(error))

    def certificates(self) -> list[x509.Certificate]:
        try:
            return x509.load_pem_x509_certificates(self._read())
        except ValueError:
            self.fail("it has no certificates in PEM format")

    def first_end_s(self, certificates: list[x509.Certificate]) -> float:
        """When the first of them ends; the log says so where that is soon."""
        first = min(certificates, key=lambda each: each.not_valid_after_utc)
        end_s = first.not_valid_after_utc.timestamp()
        left_s = end_s - time.time()
        if left_s < WARN_BEFORE_S:
            event = "certificate-ends" if left_s > 0 else "certificate-ended"
            subject, end = first.subject.rfc4514_string(), _date(first.not_valid_after_utc)
            log(logging.WARNING, event, listen=self._address, file=self.name, subject=subject, end=end)
        return end_s

    def check_lists(self, authorities: list[x509.Certificate]) -> float | None:
        """Every authority needs a list that it has signed; when the first of them wants to be replaced."""
        lists = self._lists()
        for authority in authorities:
            of_this = [each for each in lists if each.issuer == authority.subject]
            if not any(_is_signed(each, authority) for each in of_this):
                whom = authority.subject.rfc4514_string()
                self.fail(f"it has no list signed by {whom} of tls_client_ca: each authority needs one")
        ends = [each.next_update_utc for each in lists if each.next_update_utc is not None]
        if not ends:
            return None
        if min(ends).timestamp() < time.time():
            what = "certificates of its issuer are refused until there is a newer one"
            end = _date(min(ends))
            log(
                logging.WARNING,
                "revocation-list-ended",
                listen=self._address,
                file=self.name,
                end=end,
                reason=what,
            )
        return min(ends).timestamp()

    def _lists(self) -> list[x509.CertificateRevocationList]:
        blocks = list(_BLOCK.finditer(self._read()))
        if not blocks or any(block[1] != _LIST for block in blocks):
            self.fail("it must have revocation lists (X509 CRL) in PEM format, and nothing else")
        try:
            return [x509.load_pem_x509_crl(block[0]) for block in blocks]
        except ValueError as error:
            self.fail(f"it is damaged: {error}")

    def _read(self) -> bytes:
        try:
            return Path(self.name).read_bytes()
        except OSError as error:
            self.fail(reason_of(error))


def _is_signed(revoked: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    try:  # of a key that signs nothing it raises TypeError
        return revoked.is_signature_valid(authority.public_key())  # type: ignore[arg-type]
    except (TypeError, ValueError, UnsupportedAlgorithm):
        return False


def _date(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

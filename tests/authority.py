"""An authority of the tests: certificates of clients and servers, and revocation lists."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from tests.certificates import Certificate

Names = list[x509.GeneralName]
DAY = timedelta(days=1)


@dataclass
class Issued(Certificate):
    """A certificate of an authority."""

    serial: int

    def context(self, authority: "Authority") -> ssl.SSLContext:
        """A client's, that shows this certificate and trusts ``authority``."""
        context = ssl.create_default_context(cafile=authority.certificate)
        context.load_cert_chain(self.certificate, self.key)
        return context

    def key_store(self, password: str) -> Path:
        """The certificate and its key as a PKCS #12 file."""
        certificate = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        key = serialization.load_pem_private_key(self.key.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        encryption = serialization.BestAvailableEncryption(password.encode())
        file = self.certificate.with_suffix(".p12")
        file.write_bytes(pkcs12.serialize_key_and_certificates(b"own", key, certificate, None, encryption))
        return file


class Authority:
    """Signs with a key of its own; its certificate is in ``certificate``."""

    def __init__(self, folder: Path, name: str = "test authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        extension = x509.BasicConstraints(ca=True, path_length=None)
        built = self._builder(self.subject, self._key, 30 * DAY).add_extension(extension, True)
        self.certificate = folder / "authority.pem"
        self.certificate.write_bytes(_pem(built.sign(self._key, hashes.SHA256())))

    def issue(
        self, name: str, alternatives: Names | None = None, left: timedelta = 30 * DAY, unit: str = ""
    ) -> Issued:
        """A certificate for the common name ``name``, which ends so long from now."""
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if unit:
            attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit))
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(x509.Name(attributes), key, left)
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), False)
        made = builder.sign(self._key, hashes.SHA256())
        file = self._folder / f"{made.serial_number}.pem"
        key_file = file.with_suffix(".key")
        file.write_bytes(_pem(made))
        key_file.touch(0o600)
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        key_file.write_bytes(key.private_bytes(*form))
        return Issued(file, key_file, made.serial_number)

    def server(self, left: timedelta = 30 * DAY) -> Issued:
        """A certificate for a server on this machine."""
        return self.issue("localhost", [x509.DNSName("localhost")], left)

    def revoke(self, file: Path, *issued: Issued, left: timedelta = 30 * DAY) -> Path:
        """Write a revocation list, of these alone, to ``file``."""
        now = datetime.now(UTC)
        builder = x509.CertificateRevocationListBuilder().issuer_name(self.subject)
        builder = builder.last_update(now - 100 * DAY).next_update(now + left)
        for each in issued:
            revoked = x509.RevokedCertificateBuilder().serial_number(each.serial).revocation_date(now - DAY)
            builder = builder.add_revoked_certificate(revoked.build())
        made = builder.sign(self._key, hashes.SHA256())
        file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        return file

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, left: timedelta
    ) -> x509.CertificateBuilder:
        end = datetime.now(UTC) + left
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self.subject)
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        return builder.not_valid_before(end - 400 * DAY).not_valid_after(end)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)

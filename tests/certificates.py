"""Certificates that sign themselves, made by OpenSSL."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Certificate:
    """A certificate that signs itself, and its key."""

    certificate: Path
    key: Path


def sign(folder: Path, host: str = "localhost", address: str = "") -> Certificate:
    """A certificate for that host, and for an IP address if one is named."""
    made = Certificate(folder / "cert.pem", folder / "key.pem")
    names = f"DNS:{host}" + (f",IP:{address}" if address else "")
    subject = ["-subj", f"/CN={host}", "-addext", f"subjectAltName={names}"]
    files = ["-keyout", str(made.key), "-out", str(made.certificate)]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command = ["openssl", "req", "-x509", *key, "-days", "2", *subject, *files]
    subprocess.run(command, check=True, capture_output=True)
    return made

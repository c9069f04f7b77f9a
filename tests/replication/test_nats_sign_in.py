"""TLS and sign-in to NATS: by user and password, by a client's certificate, by a file of credentials."""

import asyncio
import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nkeys  # type: ignore[import-untyped]
import pytest
from tools.peers.nats import NatsCluster

from postroom.replication.errors import EngineRefused
from postroom.replication.nats_log import NatsLog
from postroom.replication.options import ALLOW_REPLICAS, ReplicationOptions
from tests.authority import Authority, Issued

pytestmark = pytest.mark.sockets
PASSWORD = "of the engine"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> Issued:
    """A client's."""
    return authority.issue("member a")


@pytest.fixture(scope="module")
def with_tls(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[NatsCluster]:
    """A server that wants a certificate, and a password."""
    server = authority.server()
    settings = (
        f'tls {{ cert_file: "{server.certificate}", key_file: "{server.key}",'
        f' ca_file: "{authority.certificate}", verify: true }}\n'
        f'authorization {{ user: ann, password: "{PASSWORD}" }}\n'
    )
    with NatsCluster(tmp_path_factory.mktemp("tls"), 1, settings=settings) as cluster:
        yield cluster


def options(cluster: NatsCluster, scheme: str, **others: Any) -> ReplicationOptions:
    (node,) = cluster.nodes
    given = {"monitoring": tuple(cluster.monitoring), "allow": frozenset({ALLOW_REPLICAS}), **others}
    return ReplicationOptions((f"{scheme}://localhost:{node.client_port}",), "a", replicas=1, **given)


@pytest.fixture
def signed_in(
    tmp_path: Path, with_tls: NatsCluster, authority: Authority, certificate: Issued
) -> dict[str, Any]:
    """Options with which the server lets one in."""
    password_file = tmp_path / "password"
    password_file.write_text(f"{PASSWORD}\n")
    return {
        "user": "ann",
        "password_file": str(password_file),
        "tls_ca": str(authority.certificate),
        "tls_certificate": str(certificate.certificate),
        "tls_key": str(certificate.key),
    }


def append_one(given: ReplicationOptions) -> None:
    async def append() -> None:
        log = NatsLog(given)
        try:
            await log.open()
            last = await log.last()
            assert await log.append(last, [b"entry"]) == last + 1
        finally:
            await log.close()

    asyncio.run(append())


def test_a_password_over_tls_with_a_certificate(with_tls: NatsCluster, signed_in: dict[str, Any]) -> None:
    append_one(options(with_tls, "tls", **signed_in))


@pytest.mark.parametrize("left_out", ["user", "tls_ca", "tls_certificate"])
def test_what_is_missing_is_refused(with_tls: NatsCluster, signed_in: dict[str, Any], left_out: str) -> None:
    given = {name: value for name, value in signed_in.items() if name != left_out}
    with pytest.raises(EngineRefused, match="don't let each other in"):
        append_one(options(with_tls, "tls", **given))


def test_a_wrong_password_is_refused(
    tmp_path: Path, with_tls: NatsCluster, signed_in: dict[str, Any]
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("sesame")
    with pytest.raises(EngineRefused, match=r"Authorization Violation.*password_file"):
        append_one(options(with_tls, "tls", **{**signed_in, "password_file": str(wrong)}))


def test_a_password_that_cannot_be_read_is_refused(
    tmp_path: Path, with_tls: NatsCluster, signed_in: dict[str, Any]
) -> None:
    with pytest.raises(EngineRefused, match="the password of NATS's user ann can't be read"):
        append_one(options(with_tls, "tls", **{**signed_in, "password_file": str(tmp_path / "none")}))


def test_a_server_of_another_authority_is_refused(
    tmp_path: Path, with_tls: NatsCluster, signed_in: dict[str, Any]
) -> None:
    other = Authority(tmp_path / "other", "somebody else")
    with pytest.raises(EngineRefused, match="CERTIFICATE_VERIFY_FAILED"):
        append_one(options(with_tls, "tls", **{**signed_in, "tls_ca": str(other.certificate)}))


class Signer:
    """A key of NATS' operators, accounts and users, which signs what it says of others."""

    def __init__(self, kind: int) -> None:
        self.seed: bytes = nkeys.encode_seed(os.urandom(32), kind)
        self._pair = nkeys.from_seed(bytearray(self.seed))
        self.name: str = self._pair.public_key.decode()

    def token(self, subject: str, kind: str, claims: dict[str, Any]) -> str:
        """A JWT as NATS has them."""
        body = {
            "jti": "1",
            "iat": 1_700_000_000,
            "iss": self.name,
            "name": kind,
            "sub": subject,
            "nats": {"type": kind, "version": 2, **claims},
        }
        text = f"{_encoded({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{_encoded(body)}"
        return f"{text}.{_base64(self._pair.sign(text.encode()))}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _encoded(value: dict[str, Any]) -> str:
    return _base64(json.dumps(value).encode())


def test_a_file_of_credentials(tmp_path: Path) -> None:
    operator, account, user = (
        Signer(kind)
        for kind in (nkeys.PREFIX_BYTE_OPERATOR, nkeys.PREFIX_BYTE_ACCOUNT, nkeys.PREFIX_BYTE_USER)
    )
    system = Signer(nkeys.PREFIX_BYTE_ACCOUNT)
    everything = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    unbounded = {"subs": -1, "data": -1, "payload": -1, "conn": -1, "leaf": -1, "imports": -1, "exports": -1}
    of_account = operator.token(account.name, "account", {"limits": {**unbounded, **everything}})
    of_system = operator.token(system.name, "account", {"limits": unbounded})
    settings = (
        f"operator: {operator.token(operator.name, 'operator', {})}\n"
        f"system_account: {system.name}\nresolver: MEMORY\n"
        f"resolver_preload: {{ {account.name}: {of_account}, {system.name}: {of_system} }}\n"
    )
    credentials = tmp_path / "member.creds"
    of_user = account.token(user.name, "user", {"subs": -1, "data": -1, "payload": -1})
    credentials.write_text(
        f"-----BEGIN NATS USER JWT-----\n{of_user}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n"
    )
    with NatsCluster(tmp_path / "nats", 1, settings=settings) as cluster:
        append_one(options(cluster, "nats", credentials_file=str(credentials)))
        with pytest.raises(EngineRefused, match="credentials_file"):
            append_one(options(cluster, "nats"))

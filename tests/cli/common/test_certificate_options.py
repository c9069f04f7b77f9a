"""Commands show a certificate of their own, by options or by variables."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from postroom.cli import main
from postroom.server.configuration.listening import ListenConfig
from tests.authority import Authority
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[BrokerThread]:
    """A broker that lets in ann alone, by her certificate."""
    server = authority.server()
    listen = ListenConfig(
        address="127.0.0.1:0",
        anonymous=False,
        tls_certificate=str(server.certificate),
        tls_key=str(server.key),
        tls_client_ca=str(authority.certificate),
    )
    config = make_config(queues=("orders",), listen=[listen], users={"ann": []})
    with BrokerThread(config) as running:
        yield running


def test_a_command_signs_in_by_certificate(
    broker: BrokerThread, authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    shown = authority.issue("ann")
    files = {"--certificate": str(shown.certificate), "--key": str(shown.key)}
    command = ["queue", "list", "--url", f"amqps://localhost:{broker.port}"]

    def run(*more: str, **environment: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, [*command, *more], env=environment)
        return result.exit_code, result.output

    code, output = run(*(text for pair in files.items() for text in pair))
    assert code == 0 and "orders" in output
    code, output = run(POSTROOM_CERTIFICATE=files["--certificate"], POSTROOM_KEY=files["--key"])
    assert code == 0 and "orders" in output
    both = tmp_path / "both.pem"
    both.write_bytes(shown.certificate.read_bytes() + shown.key.read_bytes())
    assert run("--certificate", str(both))[0] == 0
    code, output = run()
    assert code == 3 and "wants a certificate (--certificate)" in output
    code, output = run("--certificate", str(tmp_path / "absent.pem"))
    assert code == 3 and "absent.pem: [Errno 2] No such file" in output and output.count("\n") == 1

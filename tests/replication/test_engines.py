"""Which engine keeps the log is said by the URLs of its servers."""

import sys
from pathlib import Path

import pytest

from postroom.replication.errors import EngineRefused
from postroom.replication.kafka_client import settings_of
from postroom.replication.options import Engine, ReplicationOptions, engine_of
from postroom.server.configuration.config import Config
from postroom.server.configuration.replication import ReplicationConfig
from postroom.server.configuration.values import PlacedError
from postroom.server.exits import Exit, StartError
from postroom.server.membership import Membership

KAFKA = ["kafka://127.0.0.1:9092"]
TLS = ["kafka+tls://127.0.0.1:9093"]
NATS = ["nats://127.0.0.1:4222"]


@pytest.mark.parametrize(
    ("servers", "engine"),
    [
        (NATS, Engine.NATS),
        (["127.0.0.1:4222", "tls://nats.example:4222"], Engine.NATS),
        (KAFKA, Engine.KAFKA),
        ([*TLS, "kafka+tls://kafka.example"], Engine.KAFKA),
    ],
)
def test_the_scheme_says_which(servers: list[str], engine: Engine) -> None:
    assert engine_of(servers) is engine
    assert ReplicationConfig(servers, "a").servers == servers


@pytest.mark.parametrize(
    ("servers", "others", "path", "what"),
    [
        ([*KAFKA, *NATS], {}, "servers", "kafka://, nats://: all are of one kind"),
        ([*KAFKA, *TLS], {}, "servers", r"kafka\+tls://, kafka://: all are of one kind|all are of one kind"),
        (["amqp://127.0.0.1"], {}, "servers", "amqp:// is no engine's: nats://"),
        (["kafka://me:secret@127.0.0.1"], {}, "servers", "name it in user and password_file"),
        (["kafka://127.0.0.1:9092/x"], {}, "servers", "is no address such as kafka://10.0.0.1:9092"),
        (["kafka://127.0.0.1:port"], {}, "servers", "is no address"),
        (["kafka://"], {}, "servers", "is no address"),
        (KAFKA, {"monitoring": ["http://127.0.0.1:8222"]}, "monitoring", "is nothing of Kafka's"),
        (KAFKA, {"credentials_file": "x"}, "credentials_file", "is nothing of Kafka's"),
        (NATS, {"sasl_mechanism": "PLAIN"}, "sasl_mechanism", "is nothing of NATS's"),
        (KAFKA, {"tls_ca": "x"}, "tls_ca", r"write kafka\+tls://"),
        (KAFKA, {"sasl_mechanism": "PLAIN"}, "sasl_mechanism", r"write kafka\+tls://"),
    ],
)
def test_what_no_engine_takes(servers: list[str], others: dict[str, str], path: str, what: str) -> None:
    with pytest.raises(PlacedError, match=what) as caught:
        ReplicationConfig(servers, "a", **others)  # type: ignore[arg-type]
    assert caught.value.path[0] == path


def test_settings_of_a_connection_to_kafka(tmp_path: Path) -> None:
    plain = settings_of(ReplicationOptions(("kafka://10.0.0.1", "kafka://[::1]:9094"), "a"))
    assert plain["bootstrap.servers"] == "10.0.0.1:9092,[::1]:9094"
    assert plain["security.protocol"] == "PLAINTEXT"
    password = tmp_path / "password"
    password.write_text("sesame\n")
    options = ReplicationOptions(
        ("kafka+tls://k.example:1",),
        "a",
        user="me",
        password_file=str(password),
        tls_ca="ca.pem",
        tls_certificate="own.pem",
    )
    found = settings_of(options)
    assert found["security.protocol"] == "SASL_SSL"
    assert (found["sasl.mechanism"], found["sasl.password"]) == ("SCRAM-SHA-512", "sesame")
    assert found["ssl.key.location"] == found["ssl.certificate.location"] == "own.pem"
    password.unlink()
    with pytest.raises(EngineRefused, match="the password of Kafka's user me can't be read"):
        settings_of(options)


@pytest.mark.parametrize(
    ("servers", "library", "module", "extra"),
    [
        (KAFKA, "confluent_kafka", "kafka_log", "kafka"),
        (NATS, "nats", "nats_log", "nats"),
    ],
)
def test_an_engine_whose_library_is_not_here(
    tmp_path: Path,
    servers: list[str],
    library: str,
    module: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line that says what to do."""
    loaded = [name for name in sys.modules if name.startswith(f"{library}.")]
    for name in (library, *loaded):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"postroom.replication.{module}", raising=False)
    monkeypatch.delitem(sys.modules, "postroom.replication.kafka_client", raising=False)
    monkeypatch.delattr(f"postroom.replication.{module}", raising=False)
    config = Config(data=str(tmp_path), replication=ReplicationConfig(servers, "a"))
    with pytest.raises(StartError, match=rf"pip install 'postroom\[{extra}\]'") as caught:
        Membership(config, [])
    assert caught.value.code == Exit.CONFIGURATION

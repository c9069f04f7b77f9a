"""What is in ``deploy/`` holds together: configurations load, commands parse, names, ports and users agree.

What of it runs here is in tests/replication/test_deploy.py.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from postroom import __version__
from postroom.cli.broker.serve import serve
from postroom.server.configuration.config import Config
from postroom.server.configuration.config_file import load_config
from postroom.server.exits import Exit

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SYSTEMD, KUBERNETES = DEPLOY / "systemd", DEPLOY / "kubernetes"
NATS_SERVER = Path(sys.executable).with_name("nats-server")
CONFIGURATIONS = (SYSTEMD / "a.toml", KUBERNETES / "postroom.toml", DEPLOY / "container.toml")
UNITS = ("postroom@.service", "postroom-nats.service")
NEEDS_A_PERSON = {Exit.CONFIGURATION, Exit.ADDRESS, Exit.LEDGER_REFUSED}
MOST_EXPOSURE = 2.0
"""Of 10, as `systemd-analyze security` counts."""
REGISTRY = re.compile(r"^[^/]*[.:][^/]*/")
"""How an image's name begins that names the host of a registry."""


def served(arguments: list[str]) -> Path:
    """The configuration that these arguments of `postroom serve` name."""
    file = serve.make_context("serve", arguments).params["config_file"]
    assert isinstance(file, Path)
    return file


@pytest.mark.parametrize("file", CONFIGURATIONS, ids=lambda file: str(file.relative_to(DEPLOY)))
def test_nobody_gets_in_from_elsewhere_without_a_password(file: Path) -> None:
    config = load_config(file)
    local = [listener for listener in config.listen if listener.address.startswith("127.0.0.1:")]
    assert [listener for listener in config.listen if listener.anonymous is not False] == local
    assert len(local) == 1
    assert not config.users, "whoever installs it makes the first"


@pytest.mark.parametrize("folder", [SYSTEMD, KUBERNETES], ids=lambda folder: str(folder.name))
def test_nats_takes_its_configuration(folder: Path) -> None:
    file = folder / "nats.conf"
    environment = {**os.environ, "POD_NAME": "postroom-nats-0", "NATS_PASSWORD": "secret"}
    command = [str(NATS_SERVER), "--config", str(file), "-t"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "sync_interval: always" in file.read_text()


# --- systemd


def unit(name: str) -> ConfigParser:
    parsed = ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read(SYSTEMD / name)
    return parsed


def test_the_unit_serves_and_comes_back_unless_a_person_is_needed() -> None:
    service = unit("postroom@.service")["Service"]
    program, command, *arguments = shlex.split(service["ExecStart"])
    assert (Path(program).name, command) == ("postroom", "serve")
    assert served(arguments) == Path("/etc/postroom/%i.toml")
    assert service["Restart"] == "always"
    prevented = set(map(int, service["RestartPreventExitStatus"].split()))
    assert prevented == NEEDS_A_PERSON
    config = load_config(SYSTEMD / "a.toml")
    assert config.data == f"/var/lib/{service['StateDirectory'].replace('%i', 'a')}"
    assert config.replication is not None and config.replication.member == "a"
    assert f"u {service['User']} " in (SYSTEMD / "sysusers.conf").read_text()
    secrets = [listener.tls_key for listener in config.listen if listener.tls_key]
    assert all(Path(file).is_relative_to("/etc/postroom") for file in secrets)


def test_the_members_nats_is_the_one_of_the_unit() -> None:
    config, text = load_config(SYSTEMD / "a.toml").replication, (SYSTEMD / "nats.conf").read_text()
    assert config is not None
    routes = re.findall(r'"nats://[^@"]*@([^:"]+):6222"', text)
    assert config.servers == [f"nats://{host}:4222" for host in routes]
    assert config.monitoring == [f"http://{host}:8222" for host in routes]
    assert 'listen: "0.0.0.0:4222"' in text and 'http: "0.0.0.0:8222"' in text
    assert f"user: {config.user}" in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd isn't here")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_takes_the_units(name: str, tmp_path: Path) -> None:
    """With programs that are here; and it finds little that they could do to the machine."""
    file = tmp_path / name.replace("@", "@a")
    file.write_text(
        re.sub("^ExecStart=[^ ]+", "ExecStart=/bin/true", (SYSTEMD / name).read_text(), flags=re.M)
    )
    command = ["systemd-analyze", "verify", "--man=no", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if name[:8] in line]) == (0, [])
    command = ["systemd-analyze", "security", "--offline=true", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    level = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
    assert level is not None, done.stdout + done.stderr
    assert float(level[1]) <= MOST_EXPOSURE, done.stdout


# --- the image


def instructions() -> list[tuple[str, str]]:
    """Of the Containerfile: the word, and what follows it."""
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def last(word: str) -> str:
    return [rest for each, rest in instructions() if each == word][-1]


def test_the_image_serves_as_a_user_without_rights() -> None:
    bases = [rest for word, rest in instructions() if word == "FROM"]
    assert bases == ["${BASE} AS build", "${BASE}"]
    assert not REGISTRY.match(last("ARG").removeprefix("BASE="))
    assert json.loads(last("ENTRYPOINT")) == ["postroom"]
    command, *arguments = json.loads(last("CMD"))
    assert command == "serve"
    file = str(served(arguments))
    assert ("COPY", f"deploy/container.toml {file}") in instructions()
    check = json.loads(last("HEALTHCHECK").partition(" CMD ")[2])
    data = load_config(DEPLOY / "container.toml").data
    assert check == ["postroom", "status", "--data", data]
    assert data == last("VOLUME") == last("WORKDIR")
    user = pod("postroom")["securityContext"]
    assert last("USER") == f"{user['runAsUser']}:{user['runAsGroup']}"
    ports = {address.rpartition(":")[2] for address in addresses(load_config(KUBERNETES / "postroom.toml"))}
    assert ports <= set(last("EXPOSE").split())


def test_what_the_image_copies_is_sent_to_the_engine() -> None:
    ignore = (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()
    sent = [line[1:] for line in ignore if line.startswith("!")]
    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    names = list(chain.from_iterable(copied))
    assert ignore[0] == "*"
    assert set(names) == set(sent)
    assert all((ROOT / name).exists() for name in names)
    assert not [name for name in names for line in ignore[1:] if line[0] != "!" and fnmatch(name, line)]


# --- Kubernetes


def manifests() -> dict[tuple[str, str], dict[str, Any]]:
    """All that the kustomization applies, by kind and name."""
    listed = kustomization()["resources"]
    found = chain.from_iterable(yaml.safe_load_all((KUBERNETES / name).read_text()) for name in listed)
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def kustomization() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    return found


def pod(name: str) -> dict[str, Any]:
    """What runs under that name."""
    found: dict[str, Any] = manifests()["StatefulSet", name]["spec"]["template"]["spec"]
    return found


def addresses(config: Config) -> list[str]:
    """Where others reach it."""
    found = [listener.address for listener in config.listen if listener.address.startswith("0.0.0.0:")]
    return [*found, config.http.address] if config.http is not None else found


def ports_of(container: dict[str, Any]) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container["ports"]}


NAMES = ("postroom", "postroom-nats")


@pytest.mark.parametrize("name", NAMES)
def test_pods_are_restricted(name: str) -> None:
    """As the standard `restricted` has it, and with a root that is read-only."""
    found = pod(name)
    assert found["securityContext"]["runAsNonRoot"] is True
    assert found["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert found["automountServiceAccountToken"] is False
    for container in [*found["containers"], *found.get("initContainers", [])]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]


@pytest.mark.parametrize("name", NAMES)
def test_names_and_labels_agree(name: str) -> None:
    found = manifests()
    spec = found["StatefulSet", name]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    assert found["PodDisruptionBudget", name]["spec"]["selector"]["matchLabels"] == labels
    assert found["PodDisruptionBudget", name]["spec"]["maxUnavailable"] == 1
    assert found["NetworkPolicy", name]["spec"]["podSelector"]["matchLabels"] == labels
    headless = found["Service", spec["serviceName"]]["spec"]
    assert (headless["clusterIP"], headless["publishNotReadyAddresses"]) == ("None", True)
    own = ports_of(spec["template"]["spec"]["containers"][0])
    for (kind, _), each in found.items():
        if kind == "Service" and each["spec"]["selector"] == labels:
            assert {port["name"]: port["port"] for port in each["spec"]["ports"]} == own
    claims = {claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]}
    volumes = claims | {volume["name"] for volume in spec["template"]["spec"]["volumes"]}
    containers = [
        *spec["template"]["spec"]["containers"],
        *spec["template"]["spec"].get("initContainers", []),
    ]
    mounts = [mount["name"] for container in containers for mount in container["volumeMounts"]]
    assert set(mounts) == volumes


def test_images_are_pinned_in_one_place_and_name_no_registry() -> None:
    images = {image["name"]: image for image in kustomization()["images"]}
    used = {
        container["image"]
        for name in NAMES
        for container in [*pod(name)["containers"], *pod(name).get("initContainers", [])]
    }
    assert used == set(images)
    assert images["postroom"]["newTag"] == __version__
    for image in images.values():
        assert image["newTag"] and image["newTag"] != "latest"
        assert not REGISTRY.match(image["newName"])


def test_members_find_nats_and_each_other() -> None:
    config, found = load_config(KUBERNETES / "postroom.toml"), manifests()
    replication = config.replication
    assert replication is not None
    spec = found["StatefulSet", "postroom-nats"]["spec"]
    nodes = [f"postroom-nats-{number}.{spec['serviceName']}" for number in range(spec["replicas"])]
    ports = ports_of(spec["template"]["spec"]["containers"][0])
    assert replication.servers == [f"nats://{node}:{ports['client']}" for node in nodes]
    assert replication.monitoring == [f"http://{node}:{ports['monitoring']}" for node in nodes]
    text = (KUBERNETES / "nats.conf").read_text()
    assert re.findall(r'"(nats://[^"]+)"', text) == [f"nats://{node}:{ports['cluster']}" for node in nodes]
    assert f"user: {replication.user}" in text
    spec = found["StatefulSet", "postroom"]["spec"]
    members = ",".join(
        f"amqps://postroom-{number}.{spec['serviceName']}:5671" for number in range(spec["replicas"])
    )
    assert f"failover:({members})" in (KUBERNETES / "postroom.yaml").read_text()
    own = ports_of(spec["template"]["spec"]["containers"][0])
    assert sorted(own.values()) == sorted(int(each.rpartition(":")[2]) for each in addresses(config))


def test_files_that_the_configuration_names_are_mounted() -> None:
    config = load_config(KUBERNETES / "postroom.toml")
    assert config.replication is not None and config.http is not None
    container, volumes = pod("postroom")["containers"][0], pod("postroom")["volumes"]
    places = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    secrets = {volume["name"]: volume["secret"] for volume in volumes if "secret" in volume}
    examples = {
        each["metadata"]["name"]: each["stringData"]
        for each in yaml.safe_load_all((KUBERNETES / "secrets.example.yaml").read_text())
    }
    listener = config.listen[0]
    files = [listener.tls_certificate, listener.tls_key, config.http.tls_certificate, config.http.tls_key]
    for file in [*files, config.replication.password_file]:
        assert file is not None
        folder, _, key = file.rpartition("/")
        assert key in examples[secrets[places[folder]]["secretName"]]
    assert all(secret["defaultMode"] == 0o440 for secret in secrets.values())
    assert any(Path(config.data).is_relative_to(place) and name == "data" for place, name in places.items())
    reference = pod("postroom-nats")["containers"][0]["env"][1]["valueFrom"]["secretKeyRef"]
    assert reference["key"] in examples[reference["name"]]


def test_a_members_configuration_is_made_of_its_pods_name(tmp_path: Path) -> None:
    """By the command of the init container, as it stands; it is what the broker reads, and probes look at
    its folder."""
    (init,), (container,) = pod("postroom")["initContainers"], pod("postroom")["containers"]
    (tmp_path / "template").mkdir()
    (tmp_path / "own").mkdir()
    shutil.copy(KUBERNETES / "postroom.toml", tmp_path / "template")
    shell, flag, script = init["command"]
    script = script.replace("/etc/postroom", str(tmp_path))
    subprocess.run([shell, flag, script], env={**os.environ, "POD_NAME": "postroom-1"}, check=True)
    config = load_config(tmp_path / "own" / "postroom.toml")
    assert config.replication is not None and config.replication.member == "postroom-1"
    command, *arguments = container["args"]
    assert command == "serve"
    file = served(arguments)
    assert str(tmp_path / "own" / "postroom.toml").replace(str(tmp_path), "/etc/postroom") == str(file)
    status = ["postroom", "status", "--data", config.data]
    probes = {kind: container[f"{kind}Probe"]["exec"]["command"] for kind in ("startup", "liveness")}
    assert probes == {"startup": status, "liveness": status}
    assert container["readinessProbe"]["exec"]["command"] == [*status, "--ready"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl isn't here")
def test_kustomize_makes_it_one() -> None:
    command = ["kubectl", "kustomize", str(KUBERNETES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = list(yaml.safe_load_all(done.stdout))
    assert len(made) == len(manifests()) + len(kustomization()["configMapGenerator"])
    images = re.findall(r"^ *(?:- )?image: (\S+)$", done.stdout, flags=re.M)
    assert set(images) == {f"{each['newName']}:{each['newTag']}" for each in kustomization()["images"]}

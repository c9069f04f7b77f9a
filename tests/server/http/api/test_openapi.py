"""The description of the API: valid, as it was written, and good enough for a client made of it."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from tools.openapi import REFERENCE, written

from postroom.server.http.tokens import TOKENS_NAME, Right, add_token
from tests.server.access.test_matrix import ALL_BUT, config
from tests.server.http_client import Served, serving

GENERATION_S = 120


def test_the_reference_has_what_is_there() -> None:
    for name, text in written().items():
        assert (REFERENCE / name).read_text() == text, "python -m tools.openapi"


def test_it_is_valid() -> None:
    document = json.loads(written()["openapi.json"])
    OpenAPIV31SpecValidator(document).validate()
    ids = [each["operationId"] for methods in document["paths"].values() for each in methods.values()]
    assert len(ids) == len(set(ids)) > 100


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("made") / "data", users=ALL_BUT, role=config().role) as running:
        yield running


@pytest.fixture(scope="module")
def made_client(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The package that openapi-python-client makes of what the broker serves."""
    folder = tmp_path_factory.mktemp("client")
    description = folder / "openapi.json"
    description.write_bytes(served.get("/api/v1/openapi.json", token="").body)
    (folder / "config.yml").write_text("post_hooks: []\npackage_name_override: made_client\n")
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"]
    options = ["--path", str(description), "--output-path", str(folder / "made_client")]
    done = subprocess.run(
        [*command, *options, "--config", str(folder / "config.yml"), "--fail-on-warning"],
        capture_output=True,
        text=True,
        timeout=GENERATION_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("made_client")
    finally:
        sys.path.remove(str(folder))


def call(made: ModuleType, tag: str, name: str, *arguments: Any, **named: Any) -> Any:
    module = importlib.import_module(f"{made.__name__}.api.{tag}.{name}")
    return module.sync(*arguments, **named)


@pytest.mark.sockets
def test_a_client_made_of_it_speaks_to_a_broker(served: Served, made_client: ModuleType) -> None:
    models = importlib.import_module("made_client.models")

    def client_of(user: str) -> Any:
        token = add_token(served.folder / TOKENS_NAME, user, [Right.MANAGE], user=user)
        return made_client.AuthenticatedClient(base_url=served.url, token=token)

    with client_of("root") as root, client_of("nobody") as nobody:
        new = models.NewQueue(name="made/by a client", max_messages=3)
        made = call(made_client, "queues", "create_queue", client=root, body=new)
        assert (made.name, made.max_messages) == ("made/by a client", 3)
        message = models.NewMessage(body="hello", message_id="m1")
        call(made_client, "messages", "put_message", made.name, client=root, body=message)
        page = call(made_client, "messages", "browse_messages_of_queue", made.name, client=root, bodies=True)
        assert [(each.message_id, each.body) for each in page.items] == [("m1", "hello")]
        paused = models.Paused.from_dict({"switch": "production"})
        assert call(
            made_client, "queues", "pause_queue", made.name, client=root, body=paused
        ).production_paused
        refused = call(made_client, "queues", "purge_queue", made.name, client=nobody)
        assert isinstance(refused, models.Problem)
        assert (refused.status, refused.right, refused.on) == (403, "purge", made.name)
        assert call(made_client, "queues", "purge_queue", made.name, client=root).purged == 1
        listed = call(made_client, "queues", "list_queues", client=root, prefix="made")
        assert [each.messages_purged for each in listed.items] == [1]

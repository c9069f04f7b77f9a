"""The whole ledger over HTTP, for members: beside a broker that goes on, and to nobody else."""

import io
import threading
from pathlib import Path

import pytest

from postroom.ledger.copying.archive import unpack
from postroom.ledger.verification.verification import Severity, verify
from postroom.server.http.tokens import TOKENS_NAME, Right, add_token
from tests.server.http.test_http import SECRET_BODY, send
from tests.server.http_client import serving

pytestmark = pytest.mark.sockets


def test_members_have_the_whole_ledger(tmp_path: Path) -> None:
    """Each copy is whole, however much comes meanwhile."""
    with serving(tmp_path / "data", queues=("orders",)) as served:
        token = add_token(served.folder / TOKENS_NAME, "member", [Right.REPLICATE])
        send(served, 20)
        (served.folder / "verifiers.json").write_text("{}")
        sending = threading.Thread(target=send, args=(served, 500))
        sending.start()
        for number in range(5):
            answer = served.get("/ledger/copy", token=token)
            assert (answer.status, answer.headers["cache-control"]) == (200, "no-store")
            assert int(answer.headers["content-length"]) == len(answer.body)
            copied = tmp_path / str(number)
            copied.mkdir()
            unpack(io.BytesIO(answer.body), copied, ("verifiers.json",))
            assert (copied / "verifiers.json").read_text() == "{}"
            assert not (copied / TOKENS_NAME).exists()
            found = verify(copied, bodies=True)
            assert found.of(Severity.ERROR) == []
            assert found.bodies_checked >= 20
            assert any(SECRET_BODY in each.read_bytes() for each in copied.iterdir())
        sending.join()


def test_a_copy_needs_its_right(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as served:
        others = [right for right in Right if right is not Right.REPLICATE]
        token = add_token(served.folder / TOKENS_NAME, "all but one", others)
        answer = served.get("/ledger/copy", token=token)
        assert (answer.status, answer.json()["right"]) == (403, "replicate")
        assert served.get("/ledger/copy", token="").status == 401

"""What is kept of passwords, in its file and at other members."""

from pathlib import Path

import msgspec
import pytest

from postroom.ledger.errors import LedgerFailed
from postroom.server.access.verifier_file import VerifierFile
from postroom.server.configuration.passwords import hash_password


def test_the_own_file_has_what_other_members_get(tmp_path: Path) -> None:
    """Before they get it: whose process dies behind that isn't given it again."""
    verifier = hash_password("secret")
    seen: list[list[str]] = []

    def replicate(data: bytes) -> None:
        (file,) = tmp_path.iterdir()
        assert file.read_bytes() == data
        seen.append(list(msgspec.json.decode(data).values()))

    store = VerifierFile(tmp_path, replicate)
    (added,) = store.add([verifier])
    store.keep_only([])
    assert seen == [[verifier], []]
    assert store.get(added) is None


def test_what_others_didn_t_get_is_kept_here(tmp_path: Path) -> None:
    """It does no harm: nothing names it."""

    def overtaken(_: bytes) -> None:
        raise LedgerFailed("another member is active")

    verifier = hash_password("secret")
    with pytest.raises(LedgerFailed):
        VerifierFile(tmp_path, overtaken).add([verifier])
    (file,) = tmp_path.iterdir()
    assert verifier in file.read_text()

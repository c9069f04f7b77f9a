"""`postroom ledger upload | export`: what people see, and what is refused in one line."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from postroom.cli.main import main
from postroom.spark.places.folder import FolderPlace
from tests.spark.real_ledgers import Writer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    writer = Writer(tmp_path / "data")
    writer.write(120)
    writer.close()
    Writer(tmp_path / "data").close()
    return tmp_path / "data"


def run(*words: object, **environment: str) -> tuple[int, str]:
    result = CliRunner(env=environment).invoke(main, ["ledger", *map(str, words)])
    return result.exit_code, result.output


def test_upload_tells_each_file_once(folder: Path, tmp_path: Path) -> None:
    code, output = run("upload", "--data", folder, "--to", tmp_path / "store")
    sealed = [each for each in FolderPlace(folder).snapshot().segments if each.is_sealed]
    assert code == 0 and [line.split()[0] for line in output.splitlines()] == [each.name for each in sealed]
    assert run("upload", "--data", folder, "--to", tmp_path / "store") == (0, "")


def test_export_says_how_much_from_every_place(folder: Path, tmp_path: Path) -> None:
    run("upload", "--data", folder, "--to", tmp_path / "store")
    code, output = run("export", "--data", folder, "--out", tmp_path / "a", "--columns", "position, event")
    assert code == 0 and "sealed files" in output and " 0 events" not in output
    again = run("export", "--data", folder, "--out", tmp_path / "a", "--columns", "position,event")
    assert again == (0, "0 sealed files, 0 events\n")
    assert run("export", "--data", f"store:{tmp_path / 'store'}", "--out", tmp_path / "b")[1] == output


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("upload", "--data", "nowhere", "--to", "x"), "no ledger here"),
        (("upload", "--data", "DATA", "--to", "nope://x"), "nope://x"),
        (("export", "--data", "nowhere", "--out", "x"), "no ledger here"),
        (("export", "--data", "DATA", "--out", "x", "--columns", "a,b"), "no such column of events: a, b"),
        (("export", "--data", "DATA", "--out", "x", "--personal", "nobody=drop"), "'nobody'"),
        (("export", "--data", "DATA", "--out", "x", "--personal", "user=hash"), "key of at least"),
        (("export", "--data", "DATA", "--out", "x", "--token-file", "nowhere"), "nowhere: No such file"),
        (("export", "--data", "http://127.0.0.1:1", "--out", "x"), "127.0.0.1:1"),
        (("export", "--data", "store:nowhere", "--out", "x"), "no ledger here"),
        (("export", "--data", "ftp://x", "--out", "x"), "no such place"),
    ],
)
def test_refusals_are_one_line(
    folder: Path, tmp_path: Path, words: tuple[str, ...], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("postroom.spark.places.http_client.FIRST_PAUSE_S", 0.001)
    code, message = run(*(str(folder) if word == "DATA" else word for word in words))
    assert code == 1 and message.startswith("Error: ") and text in message
    assert len(message.splitlines()) == 1


def test_a_personal_column_without_action_is_wrong_usage(folder: Path) -> None:
    assert run("export", "--data", folder, "--out", "x", "--personal", "user")[0] == 2


def test_the_key_comes_from_the_environment(folder: Path, tmp_path: Path) -> None:
    words = ("export", "--data", folder, "--out", tmp_path / "out", "--personal", "user=hash")
    assert run(*words, POSTROOM_HASH_KEY="k" * 16)[0] == 0
    settings = (tmp_path / "out" / "_export" / "settings.json").read_text()
    assert '"user": "hash"' in settings and "k" * 16 not in settings

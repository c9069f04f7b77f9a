"""Names are made of the field's words: what the check refuses, and what it lets pass."""

from pathlib import Path

import pytest
from tools.check_names import ALLOWED, FOLDERS, PRONOUNS, REFUSED, check_file, main, words_of

FILE = "src/postroom/queue.py"


def refused(source: str, file: str = FILE) -> list[tuple[int, str]]:
    return [(one.line, one.word) for one in check_file(file, source)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("was_told", ["was", "told"]),
        ("_look_for2", ["look", "for"]),
        ("ShelfLook", ["shelf", "look"]),
        ("MAX_ASKED", ["max", "asked"]),
        ("HTTPShelf", ["http", "shelf"]),
        ("lookup", ["lookup"]),
    ],
)
def test_a_name_is_taken_apart_into_words(name: str, words: list[str]) -> None:
    assert words_of(name) == words


@pytest.mark.parametrize(
    "source",
    [
        "def say_so(): ...",
        "async def told(): ...",
        "class Shelf: ...",
        "def put(asked): ...",
        "def put(*, asked=1): ...",
        "take = lambda asked: 1",
        "told = 1",
        "told: int = 1",
        "for told in (): ...",
        "x = [told for told in ()]",
        "if (told := 1): ...",
        "import re as told",
        "try: ...\nexcept OSError as told: ...",
        "match 1:\n    case told: ...",
        "match []:\n    case [*told]: ...",
        "class Q:\n    def __init__(self):\n        self.told = 1",
    ],
)
def test_names_are_refused_where_they_are_made(source: str) -> None:
    assert len(refused(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "other.told = other.told + told(asked=1)",
        "from re import told",
        "def test_a_consumer_is_told(): ...",
        "find = 'told'",
        "first_look: int = 1",
        "lookup = booking = 1",
    ],
)
def test_names_of_others_sentences_and_texts_are_not(source: str) -> None:
    assert refused(source) == []


def test_the_name_of_a_module_counts() -> None:
    assert refused("", "src/postroom/shelf.py") == [(1, "shelf")]


def test_pronouns_of_persons_are_refused_in_comments_and_docstrings() -> None:
    source = '"""It has\nhis own."""\nx = 1  # He waits\n"""What he has."""\ntext = "his hero"\n'
    assert refused(source) == [(2, "his"), (3, "he"), (4, "he")]


def test_each_refused_word_has_another_instead() -> None:
    own = {word for text in REFUSED.values() for word in words_of(text)}
    assert all(REFUSED.values()) and not own & REFUSED.keys()
    assert not own & PRONOUNS.keys()
    assert all(any(word in REFUSED for word in words_of(name)) for name in ALLOWED)


@pytest.mark.parametrize("folder", FOLDERS)
def test_one_refused_name_anywhere_fails_the_check(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / folder / "inner"
    place.mkdir(parents=True)
    (place / "good.py").write_text("lookup = 1\n")
    assert main(tmp_path) == 0 and capsys.readouterr().out == ""
    (place / "bad.py").write_text("lookup = 1\ntold = 2\n")
    assert main(tmp_path) == 1
    assert (
        capsys.readouterr().out == f"{folder}/inner/bad.py:2: told: not 'told' (rather {REFUSED['told']})\n"
    )

"""The reference says of every setting what its declaration says."""

from pathlib import Path

import pytest
from msgspec.structs import fields
from tools import configuration_docs

from postroom.server.configuration.config import Config

SAME_AS_QUEUE = "topic"
HASHES = "users"


@pytest.mark.parametrize("page", configuration_docs.PAGES, ids=lambda page: page.name)
def test_the_tables_of_a_page_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == configuration_docs.written(text), "run python -m tools.configuration_docs"


def test_every_table_of_the_configuration_file_stands_on_a_page() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in configuration_docs.PAGES)
    shown = {name for _, name in configuration_docs.PLACE.findall(pages)} - {configuration_docs.TOP}
    known = {each.name for each in fields(Config)} - {*configuration_docs.OF_TOP, SAME_AS_QUEUE, HASHES}
    assert shown == known | {"listen.websocket"}

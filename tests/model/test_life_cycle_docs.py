"""What the documentation shows of the life cycle is what the table says."""

import re

from tools import life_cycle_docs

from postroom.model.codes import Event
from postroom.model.lifecycle import rows


def test_the_listing_is_up_to_date() -> None:
    assert life_cycle_docs.LISTING.read_text(encoding="utf-8") == life_cycle_docs.listing(), (
        "run python -m tools.life_cycle_docs"
    )


def test_the_picture_is_up_to_date() -> None:
    assert life_cycle_docs.PICTURE.read_text(encoding="utf-8") == life_cycle_docs.picture(), (
        "run python -m tools.life_cycle_docs"
    )


def test_the_listing_has_every_cell() -> None:
    sections = life_cycle_docs.listing().split("\n### ")[1:]
    assert len(sections) == len(rows())
    for section in sections:
        listed = len(re.findall(r"(?m)^\| (?!event|-)", section))
        unreachable = section.rsplit("Unreachable: ", 1)[1].rstrip(".\n")
        named = 0 if unreachable == "none" else len(unreachable.split(", "))
        assert listed + named == len(Event) - 1, section.splitlines()[0]


def test_the_picture_draws_every_way_once() -> None:
    assert set(life_cycle_docs.edges()) == set(life_cycle_docs.PATHS)

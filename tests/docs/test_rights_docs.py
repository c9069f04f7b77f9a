"""The table of rights in the reference is that of the source."""

from tools.rights_docs import FILE, written


def test_the_table_of_rights_is_up_to_date() -> None:
    assert FILE.read_text() == written(), "run `python -m tools.rights_docs`"

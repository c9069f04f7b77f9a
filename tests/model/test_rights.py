"""Rights: what grants mean, and that they add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.model.rights import (
    ADMINISTRATOR,
    EVERYTHING,
    ON_DESTINATIONS,
    ON_QUEUE_MANAGER,
    QUEUE_MANAGER,
    Grant,
    GrantInvalid,
    Right,
    Rights,
    add_grants,
    covers,
    parse_grant,
    without_rights,
)

pytestmark = pytest.mark.hypothesis

words = st.text("ab-", min_size=1, max_size=3)
names = st.lists(words, min_size=1, max_size=4).map(".".join)
pattern_levels = st.one_of(words, st.just("*"), st.just("a*"), st.just("*b"))
patterns = st.builds(
    lambda levels, rest: ".".join([*levels, *(["#"] if rest else [])]) or "#",
    st.lists(pattern_levels, max_size=4),
    st.booleans(),
)
topic_patterns = st.builds(
    lambda levels, rest: ".".join([*levels, *(["#"] if rest else [])]) or "#",
    st.lists(st.one_of(words, st.just("*")), max_size=4),
    st.booleans(),
)
grants = st.one_of(
    st.builds(Grant, st.frozensets(st.sampled_from(sorted(ON_DESTINATIONS)), min_size=1), patterns),
    st.builds(
        Grant, st.frozensets(st.sampled_from(sorted(ON_QUEUE_MANAGER)), min_size=1), st.just(QUEUE_MANAGER)
    ),
)


@pytest.mark.parametrize(
    ("pattern", "name", "covered"),
    [
        ("orders", "orders", True),
        ("orders", "orders.eu", False),
        ("orders.*", "orders.eu", True),
        ("orders.*", "orders.eu.north", False),
        ("orders.*", "orders", False),
        ("orders.#", "orders.eu.north", True),
        ("orders.#", "orders", True),
        ("orders.#", "orders2", False),
        ("in-*.x", "in-7.x", True),
        ("in-*.x", "in-7.y", False),
        ("#", "postroom.dead", True),
        ("a.b", "a+b", False),
        ("orders.#", "orders.*", True),
        ("orders.*", "orders.*", True),
        ("orders.*", "orders.#", False),
        ("orders.in-*", "orders.*", False),
        ("#", "#", True),
        ("*", "#", False),
    ],
)
def test_what_a_pattern_covers(pattern: str, name: str, covered: bool) -> None:
    assert covers(pattern, name) is covered


@given(patterns, topic_patterns, names)
def test_who_may_have_a_pattern_may_have_every_topic_of_it(granted: str, wanted: str, name: str) -> None:
    if covers(granted, wanted) and covers(wanted, name):
        assert covers(granted, name)


@given(grants)
def test_a_grant_is_read_as_it_is_written(grant: Grant) -> None:
    assert parse_grant(str(grant)) == grant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "put",
        "put on",
        "put on ",
        "fly on orders",
        "put on queue manager",
        "resolve on orders",
        "put on a.#.b",
    ],
)
def test_what_is_no_grant(text: str) -> None:
    with pytest.raises(GrantInvalid):
        parse_grant(text)


@given(
    st.lists(grants, max_size=4),
    st.lists(grants, max_size=4),
    names,
    st.sampled_from(sorted(ON_DESTINATIONS)),
)
def test_grants_add_up(some: list[Grant], others: list[Grant], name: str, right: Right) -> None:
    both, first, second = Rights([*some, *others]), Rights(some), Rights(others)
    assert both.on(right, name) == (first.on(right, name) or second.on(right, name))
    assert both.everywhere(right) == (first.everywhere(right) or second.everywhere(right))


@given(st.lists(grants, max_size=4), grants, names, st.sampled_from(sorted(ON_DESTINATIONS)))
def test_what_was_granted_can_be_taken_back(held: list[Grant], more: Grant, name: str, right: Right) -> None:
    before = Rights(held)
    after = Rights(without_rights(add_grants(held, more), more))
    assert not after.on(right, name) or before.on(right, name)
    if right not in more.rights or more.on == QUEUE_MANAGER:
        assert after.on(right, name) == before.on(right, name)


@given(names, st.sampled_from(sorted(ON_DESTINATIONS)), st.sampled_from(sorted(ON_QUEUE_MANAGER)))
def test_nobody_may_anything_that_isnt_granted_and_an_administrator_all(
    name: str, right: Right, other: Right
) -> None:
    nothing, everything = Rights([]), Rights(EVERYTHING)
    assert not nothing.on(right, name)
    assert not nothing.on_queue_manager(other)
    assert everything.on(right, name)
    assert everything.on_queue_manager(other)
    assert ADMINISTRATOR == "administrator"

"""The trie of patterns against a plain definition of what a pattern matches."""

from hypothesis import given
from hypothesis import strategies as st

from postroom.manager.destinations.topic_subscriptions import Patterns
from postroom.manager.kernel.options import QueueDefinition
from postroom.manager.kernel.statistics import HeldByAll
from postroom.manager.queues.queue import Subscription
from tests.manager.destinations.pattern_matches import matches

LEVELS = st.sampled_from(["a", "b", "", "a*", "#b"])
NAMES = st.lists(LEVELS, min_size=1, max_size=4).map(".".join)
PATTERNS = st.builds(
    lambda levels, rest: ".".join([*levels, *rest]) or "#",
    st.lists(st.sampled_from(["a", "b", "", "*", "a*", "#b"]), max_size=4),
    st.sampled_from([[], ["#"]]),
)


def a_subscription(number: int) -> Subscription:
    definition = QueueDefinition(name=f"t::{number}", kind="subscription", topic="t")
    return Subscription(number, definition, 1000, HeldByAll())


@given(st.lists(PATTERNS, max_size=12), st.data())
def test_the_trie_finds_what_the_definition_says(patterns: list[str], data: st.DataObject) -> None:
    trie = Patterns()
    known = {a_subscription(number): pattern for number, pattern in enumerate(patterns, 1)}
    for queue, pattern in known.items():
        trie.add(pattern, queue)
    gone = data.draw(st.lists(st.sampled_from(list(known)), unique=True)) if known else []
    for queue in gone:
        trie.remove(known.pop(queue), queue)
    for name in data.draw(st.lists(NAMES, min_size=1, max_size=5)):
        expected = {queue for queue, pattern in known.items() if matches(pattern.split("."), name.split("."))}
        found = trie.matching(name)
        assert set(found) == expected and len(found) == len(expected)
    for pattern in patterns:
        assert set(trie.exactly(pattern)) == {queue for queue, each in known.items() if each == pattern}
    for queue, pattern in list(known.items()):
        trie.remove(pattern, queue)
    assert not trie._root.children and not trie._root.here

"""Random sequences of every command over the real ledger, restarts too, against the reference.

After each command every counter of every destination is what the reference counts and what a recount of the
entries gives; every delivery is the next of its queue, with its count. In the end the ledger's history is
legal and its totals are the sums of its events.
"""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.manager.random_commands.machine import QUEUES, TOPICS
from tests.manager.random_commands.random_use import RandomUse
from tests.sampling import examples

EXAMPLES = settings(max_examples=examples(16), stateful_step_count=100, deadline=None)


@pytest.mark.hypothesis
@pytest.mark.parametrize("favourite", [*QUEUES, *TOPICS])
def test_random_commands(favourite: str) -> None:
    machine = type(f"RandomUseOf{favourite.title()}", (RandomUse,), {"favourite": favourite})
    run_state_machine_as_test(machine, settings=EXAMPLES)  # type: ignore[no-untyped-call]

"""Random sequences of every command over the real ledger, restarts too, against the reference.

After each command every counter of every destination is what the reference counts and what a recount of the
entries gives; every delivery is the next of its queue, with its count. In the end the ledger's history is
legal and its totals are the sums of its events.
"""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.manager.machine import QUEUES, TOPICS
from tests.manager.machine_acting import Acting
from tests.manager.machine_administering import Administering
from tests.manager.machine_looking import Looking
from tests.manager.machine_moving import Moving
from tests.manager.machine_sending import Sending
from tests.manager.machine_sinks import SinkRules
from tests.manager.machine_spark import SparkRules
from tests.manager.machine_storing import Storing
from tests.manager.machine_subscribing import SubscribingRules
from tests.manager.machine_taking import Taking


class RandomUse(
    SparkRules, SinkRules, Sending, Taking, SubscribingRules, Storing, Looking, Moving, Acting, Administering
):
    """Every command."""

    def keep_company(self, number: int) -> None:
        name = self.favourite
        if name in TOPICS:
            self.subscribe(name, True, False, True, None, False, 5 - 5 * number, "ab"[number], False)
        else:
            self.open(name, 2, None, 0, 1, 1)


EXAMPLES = settings(max_examples=16, stateful_step_count=100, deadline=None)


@pytest.mark.hypothesis
@pytest.mark.parametrize("favourite", [*QUEUES, *TOPICS])
def test_random_commands(favourite: str) -> None:
    machine = type(f"RandomUseOf{favourite.title()}", (RandomUse,), {"favourite": favourite})
    run_state_machine_as_test(machine, settings=EXAMPLES)  # type: ignore[no-untyped-call]

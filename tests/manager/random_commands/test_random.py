"""Random sequences of every command over the real ledger, restarts too, against the reference.

After each command every counter of every destination is what the reference counts and what a recount of the
entries gives; every delivery is the next of its queue, with its count. In the end the ledger's history is
legal and its totals are the sums of its events.
"""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.manager.random_commands.administration_rules import Administering
from tests.manager.random_commands.consumer_rules import Taking
from tests.manager.random_commands.job_rules import Acting
from tests.manager.random_commands.machine import QUEUES, TOPICS
from tests.manager.random_commands.move_rules import Moving
from tests.manager.random_commands.query_rules import Looking
from tests.manager.random_commands.send_rules import Sending
from tests.manager.random_commands.sink_rules import SinkRules
from tests.manager.random_commands.spark_rules import SparkRules
from tests.manager.random_commands.store_rules import Storing
from tests.manager.random_commands.subscription_rules import SubscribingRules


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

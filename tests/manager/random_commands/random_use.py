"""All rules of the random test in one machine."""

from tests.manager.random_commands.administration_rules import Administering
from tests.manager.random_commands.consumer_rules import Taking
from tests.manager.random_commands.job_rules import Acting
from tests.manager.random_commands.machine import TOPICS
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

"""The quotas of a queue manager, and the thresholds of all its destinations together."""

from typing import Final, cast, final

from postroom.manager.kernel.core import Core
from postroom.manager.kernel.destination_checks import POLICY_PREEMPTIVE
from postroom.manager.kernel.meter import Thresholds
from postroom.manager.kernel.quota_definition import Quota
from postroom.manager.kernel.quota_pool import Pool

BROKER: Final = "(broker)"
"""In place of a queue's name, where all of them together have passed a threshold."""


@final
class Quotas:
    """Quotas by name, and the broker's own."""

    def __init__(self, core: Core) -> None:
        options = core.options
        self.by_name: dict[str, Quota] = {}
        self.broker_pool = Pool("the broker's quota", core.agenda.changed_pools)
        """For destinations that have no quota of their own."""
        self.broker_pool.limit(
            options.quota_messages, options.quota_bytes, options.quota_policy == POLICY_PREEMPTIVE
        )
        self.thresholds: Thresholds | None = None
        """Of the broker: for all destinations together."""
        if options.messages_threshold_high >= 0 or options.bytes_threshold_high >= 0:
            self.thresholds = Thresholds(core, BROKER, 0, 0)
            self.thresholds.set(
                options.messages_threshold_high,
                options.messages_threshold_low,
                options.bytes_threshold_high,
                options.bytes_threshold_low,
            )


def quotas_of(core: Core) -> Quotas:
    """Those of a queue manager."""
    return cast(Quotas, core.state(Quotas))

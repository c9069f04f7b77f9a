"""The tables: how rows are made of events, how they merge, when they are final. Pure: Arrow in, Arrow out.

May import `ledger_source`.
"""

from collections.abc import Mapping
from typing import Final

from postroom.spark.tables.acts import ACTS
from postroom.spark.tables.channels import CHANNELS
from postroom.spark.tables.definition import TableDefinition
from postroom.spark.tables.delays import DELAYS
from postroom.spark.tables.deliveries import DELIVERIES
from postroom.spark.tables.destinations import DESTINATIONS
from postroom.spark.tables.dwell_times import DWELL_TIMES
from postroom.spark.tables.entries import ENTRIES
from postroom.spark.tables.events import EVENTS
from postroom.spark.tables.messages import MESSAGES
from postroom.spark.tables.transactions import TRANSACTIONS
from postroom.spark.tables.undelivered import UNDELIVERED

DEFINITIONS: Final[Mapping[str, TableDefinition]] = {
    definition.name: definition
    for definition in (
        EVENTS,
        ENTRIES,
        MESSAGES,
        DESTINATIONS,
        TRANSACTIONS,
        DELIVERIES,
        DELAYS,
        UNDELIVERED,
        CHANNELS,
        DWELL_TIMES,
        ACTS,
    )
}
"""Every table by name."""

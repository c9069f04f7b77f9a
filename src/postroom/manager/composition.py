"""What a queue manager is made of: the state of every feature, and its part in a turn, in the order in which
parts are called."""

from postroom.ledger.format.block import BlockBuilder
from postroom.manager.administration.deletion import IdleDestinationPart
from postroom.manager.administration.message_queries import MessageCursors
from postroom.manager.administration.pausing import PausePart
from postroom.manager.administration.subscriptions import ForsakenPart
from postroom.manager.channels.channel import Channels
from postroom.manager.channels.triggering import TransmissionQueueListener, TriggerPart
from postroom.manager.consuming.body_fetch import BodyFetchPart
from postroom.manager.consuming.browser import BrowserPart
from postroom.manager.consuming.dispatch import DispatchPart
from postroom.manager.consuming.judging import SelectorPart
from postroom.manager.consuming.registry import ConsumerPart
from postroom.manager.consuming.unit_turns import UnitOfOrderPart
from postroom.manager.destinations.tables import Destinations, destinations_of
from postroom.manager.destinations.topic_subscriptions import TopicSubscriptions
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.message_store.entry_verbs import StoreHolderPart
from postroom.manager.message_store.pending_requests import StoreRequestPart, StoreRequests
from postroom.manager.names.name_resolution import Names, names_of
from postroom.manager.producing.blocked_sends import BlockedSends
from postroom.manager.producing.quotas import QuotaListener, Quotas
from postroom.manager.producing.send import SendPart
from postroom.manager.queues.annotations import AnnotatedEntries
from postroom.manager.queues.selector_cursor import SearchMemory
from postroom.manager.reports.reports import ReportPart
from postroom.manager.security.principals import Principals
from postroom.manager.spark.sink import Sinks
from postroom.manager.spark.sink_verbs import SinkPart
from postroom.manager.spark.subscription import SparkSubscriptions
from postroom.manager.spark.subscription_verbs import SparkSubscriptionPart
from postroom.manager.transactions.commit import LocalTransactionPart
from postroom.manager.transactions.xa_branch import Branches
from postroom.manager.transactions.xa_verbs import XaPart
from postroom.manager.undeliverable.expiry import ExpiryPart
from postroom.manager.undeliverable.returned_entries import DelayPart


def new_core(options: ManagerOptions, ledger: BlockBuilder) -> Core:
    """The shared state, with that of every feature."""
    core = Core(options, ledger)
    for state in (
        AnnotatedEntries(),
        SearchMemory(options.max_search_bytes),
        Destinations(),
        TopicSubscriptions(core),
        Names(core),
        Quotas(core),
        BlockedSends(),
        Branches(),
        Sinks(),
        SparkSubscriptions(),
        Channels(),
        Principals(),
        StoreRequests(),
        MessageCursors(),
    ):
        core.keep(state)
    destinations_of(core).listeners = [names_of(core), QuotaListener(), TransmissionQueueListener()]
    reports, dispatched, sends = ReportPart(), DispatchPart(), SendPart()
    core.followers = [reports, dispatched, sends]
    core.parts = [
        XaPart(),
        ForsakenPart(),
        ConsumerPart(),
        DelayPart(),
        PausePart(),
        ExpiryPart(),
        StoreHolderPart(),
        SparkSubscriptionPart(),
        IdleDestinationPart(),
        LocalTransactionPart(),
        SinkPart(),
        sends,
        TriggerPart(),
        StoreRequestPart(),
        BrowserPart(),
        SelectorPart(),
        UnitOfOrderPart(),
        reports,
        dispatched,
        BodyFetchPart(),
    ]
    return core

"""Every bound and policy of the queue manager, with its unit in its name."""

from dataclasses import dataclass, field, fields, replace
from typing import Final

from postroom.manager.headers.transmission_header import MAX_HOPS
from postroom.manager.kernel.destination_checks import (
    DELIVERY_MODES,
    MAX_PRIORITY,
    POLICIES,
    POLICY_FIFO,
    check_sending,
)
from postroom.manager.kernel.errors import DefinitionInvalid
from postroom.manager.kernel.name_rules import check_name, check_subscription_name, check_topic_name
from postroom.model.duplicates import MAX_DUPLICATE_WINDOW
from postroom.model.settings import NO_LIMIT, bounds_of, first_fault, record_of, setting, unusual_of

IDENTITY_FIELDS: Final = (
    *("name", "kind", "auto_created", "temporary", "durably_paused"),
    *("topic", "client", "subscription", "shared", "selector", "no_local"),
)
"""What a queue, topic or subscription is from its beginning, or becomes by other operations: no settings."""

QUEUE_DEFAULTS: Final = (
    *("redelivery_limit", "redelivery_delay_ms", "redelivery_delay_multiplier_percent"),
    *("max_redelivery_delay_ms", "dead_letter_queue"),
)
"""Settings of which the configuration says what they are where a queue doesn't."""

MAX_GROUP_BUCKETS: Final = 65_536
MAX_BRANCH_MESSAGES: Final = 16_384
"""Of one XA branch: so many go back in one block of the ledger."""

ACCESS_SHARED: Final = "shared"
ACCESS_EXCLUSIVE: Final = "exclusive"

POLICY_DISCARD: Final = "discard"
POLICY_LOG: Final = "log"
POLICY_REDIRECT: Final = "redirect"
EXPIRATION_POLICIES: Final = (POLICY_DISCARD, POLICY_LOG, POLICY_REDIRECT)

USAGE_NORMAL: Final = "normal"
USAGE_TRANSMISSION: Final = "transmission"
USAGES: Final = (USAGE_NORMAL, USAGE_TRANSMISSION)

STARTUP_DEFAULT: Final = "default"
STARTUP_PAUSES: Final = (STARTUP_DEFAULT, "true", "false")

KIND_QUEUE: Final = "queue"
KIND_TOPIC: Final = "topic"
KIND_SUBSCRIPTION: Final = "subscription"


@dataclass(frozen=True)
class QueueDefinition:
    """What a queue is, as it is written to the ledger. Limits of −1 are off."""

    name: str
    kind: str = KIND_QUEUE
    """"queue"; "topic", whose other settings are those of its subscriptions to come; or "subscription"."""
    usage: str = setting(USAGE_NORMAL, choices=USAGES)
    """`transmission`: messages for [other queue managers](remote-queues.md) wait here for a channel
    [USAGE]."""
    access: str = setting(ACCESS_SHARED, choices=(ACCESS_SHARED, ACCESS_EXCLUSIVE))
    """`shared`: competing consumers in turn; `exclusive`: one consumer at a time, the others stand by in the
    order in which they attached."""
    standby: bool = True
    """With exclusive access: whether others may attach and wait, or are refused."""
    max_consumers: int = setting(1000, least=1)
    """More are refused."""
    max_unsettled_per_consumer: int = NO_LIMIT
    """Delivered to one consumer and not settled, at least 1: further deliveries wait; −1: 10,000, and never
    more."""
    max_messages: int = NO_LIMIT
    """With `max_bytes` a [quota](quotas.md) of its own: held at most, in flight included; −1: no limit."""
    max_bytes: int = NO_LIMIT
    """Likewise."""
    quota_policy: str = setting(POLICY_FIFO, choices=POLICIES)
    """Who goes in first when it has been full: in the order of coming, or (`preemptive`) whatever fits."""
    quota: str = ""
    """The quota resource that it is under instead; empty, and no limits of its own: the broker's quota."""
    messages_threshold_high: int = NO_LIMIT
    """[Thresholds](quotas.md#thresholds-and-flow-control): above high senders are slowed down, until it is
    below low; −1: off."""
    messages_threshold_low: int = NO_LIMIT
    """Likewise low."""
    bytes_threshold_high: int = NO_LIMIT
    """Likewise of bytes."""
    bytes_threshold_low: int = NO_LIMIT
    """Likewise of bytes, low."""
    time_to_deliver_ms: int = NO_LIMIT
    """Messages are born so long after their arrival, whatever their sender says
    ([overrides](quotas.md#overrides)); −1: as the sender says."""
    delivery_schedule: str = ""
    """Or at the next moment of this schedule."""
    ttl_override_ms: int = NO_LIMIT
    """Time to live, whatever the sender says; 0: for ever; −1: as the sender says."""
    priority_override: int = setting(NO_LIMIT, most=MAX_PRIORITY)
    """Likewise the priority."""
    delivery_mode_override: str = setting("", choices=("", *DELIVERY_MODES))
    """Likewise whether messages are persistent; empty: as the sender says."""
    persistent: bool = True
    """false: a queue without store; persistent messages are rejected."""
    allow_persistent_downgrade: bool = False
    """Without store: persistent messages are kept as non-persistent ones instead of being refused."""
    max_message_bytes: int = NO_LIMIT
    """Smaller than `limits.max_message_bytes`; −1: that."""
    duplicate_window: int = setting(0, least=0, most=MAX_DUPLICATE_WINDOW)
    """So many message ids that it (a queue or topic) has taken last are remembered; a message that comes
    again with one of them is accepted and dropped: [duplicate detection](queues.md#duplicate-detection); 0:
    none."""
    body_retention_s: int = setting(0, least=0)
    """Bodies of messages that have ended [stay so long](queues.md) for readers of the ledger, as long as
    their events do; 0: not at all."""
    max_ttl_ms: int = NO_LIMIT
    """A message expires at the latest so long after its arrival, whatever its own time to live."""
    respect_ttl: bool = True
    """false: the time to live and the absolute expiry that senders give are ignored; `max_ttl_ms` and
    overrides count."""
    redelivery_limit: int = NO_LIMIT
    """Failures after which a message is still delivered again; above it goes to the dead-letter queue; −1: no
    limit."""
    redelivery_delay_ms: int = NO_LIMIT
    """How long a message waits after a failure (rollback, recover, modified with delivery-failed), whatever
    its consumer says; −1: as that says (`x-opt-redelivery-delay`), else not at all."""
    redelivery_delay_multiplier_percent: int = setting(100, least=100)
    """The delay of each further failure is so much of the one before: 200 doubles it."""
    max_redelivery_delay_ms: int = NO_LIMIT
    """It grows to no more than this; −1: ten times the first."""
    lost_link_counts: bool = False
    """Whether a delivery that came back by a broken link is charged to the redelivery limit."""
    undo_counts: bool = False
    """[Message store](message-store.md): whether what is got and taken back by undo is charged to the
    redelivery limit."""
    dead_letter_queue: str = ""
    """Where rejected messages and those over the limit go; empty: they are discarded, with a line in the log.
    Created when first needed."""
    dead_letter_eligible_only: bool = False
    """Only messages with the annotation `x-opt-dead-letter-eligible: true` become dead letters or are
    redirected; the others are discarded, or expire."""
    expiration_policy: str = setting(POLICY_DISCARD, choices=EXPIRATION_POLICIES)
    """`log`: expired messages are noted in the message log; `redirect`: they go to `expiry_queue`, or where
    none is named to `dead_letter_queue`."""
    expiry_queue: str = ""
    """Where expired messages are redirected; empty: to the dead-letter queue."""
    message_logging: bool = False
    """Whether the [message log](ledger-commands.md#message-log) tells what happens to its messages."""
    confirm_id_required: bool = True
    """[Message store](message-store.md): whether confirming one message needs the confirm id beside its
    unique id."""
    production_paused_at_startup: str = setting(STARTUP_DEFAULT, choices=STARTUP_PAUSES)
    """[Pausing](queues.md#pausing): `default` is as auto-created queues, else as `[startup]` says."""
    insertion_paused_at_startup: str = setting(STARTUP_DEFAULT, choices=STARTUP_PAUSES)
    """Likewise."""
    consumption_paused_at_startup: str = setting(STARTUP_DEFAULT, choices=STARTUP_PAUSES)
    """Likewise."""
    group_buckets: int = setting(0, least=0, most=MAX_GROUP_BUCKETS)
    """[Message groups](selectors.md#message-groups): into so many buckets, each with one consumer at a time;
    0: off."""
    unit_of_order: bool = False
    """Whether members of a [unit of order](selectors.md#unit-of-order) are processed one after another, in
    their order. Changes only while the queue is empty."""
    max_unit_members: int = setting(1_000_000, least=0)
    """Such messages that have not ended; while there are so many, it takes no more of them."""
    auto_created: bool = False
    """Created for a client that attached; removed when idle."""
    temporary: bool = False
    """A dynamic node, or a subscription that is not durable: not beyond a restart."""
    durably_paused: str = ""
    """Pauses that hold beyond a restart: switches, with blanks between them (see `pausing`)."""
    topic: str = ""
    """Of a subscription: the topic, or the pattern of topics, that it is to."""
    client: str = ""
    """Of a subscription: the client (container id) whose it is; "" for a global one."""
    subscription: str = ""
    """Of a subscription: the name that its clients know it by."""
    shared: bool = False
    """Of a subscription: several consumers may share it."""
    selector: str = ""
    """Of a subscription: which messages it takes; "" all."""
    no_local: bool = False
    """Of a subscription: not those that its own client publishes."""

    def check(self) -> None:
        """Raise NameNotAllowed or DefinitionInvalid."""
        if self.kind == KIND_SUBSCRIPTION:
            check_subscription_name(self.name)
        elif self.kind == KIND_TOPIC:
            check_topic_name(self.name)
        else:
            check_name(self.name)
        key, fault = first_fault(self, QUEUE_BOUNDS)
        if fault:
            raise DefinitionInvalid(f"queue {self.name!r}: {fault}", key)
        if self.usage == USAGE_TRANSMISSION and self.kind != KIND_QUEUE:
            raise DefinitionInvalid(
                f"{self.name!r} is a {self.kind}: only queues can be transmission queues", "usage"
            )
        if self.duplicate_window and self.kind == KIND_SUBSCRIPTION:
            raise DefinitionInvalid(
                f"{self.name!r} is a subscription: its topic looks for duplicates, for all",
                "duplicate_window",
            )
        if self.max_unsettled_per_consumer == 0:
            raise DefinitionInvalid(
                f"queue {self.name!r}: max_unsettled_per_consumer is 0, nothing could be delivered: 1 or "
                "more, or −1 for the queue manager's",
                "max_unsettled_per_consumer",
            )
        if self.unit_of_order and self.kind != KIND_QUEUE:
            raise DefinitionInvalid(f"{self.name!r} is a {self.kind}: only queues have units of order")
        for other in (self.dead_letter_queue, self.expiry_queue):
            if other:
                check_name(other)
        self._check_expiration()
        check_sending(self)

    def _check_expiration(self) -> None:
        policy = self.expiration_policy
        if policy == POLICY_REDIRECT and not self.expiry_queue and not self.dead_letter_queue:
            raise DefinitionInvalid(
                f"queue {self.name!r}: expiration_policy is 'redirect', but neither expiry_queue nor "
                "dead_letter_queue says where to",
                "expiration_policy",
            )
        if policy != POLICY_REDIRECT and self.expiry_queue:
            raise DefinitionInvalid(
                f"queue {self.name!r}: expiry_queue needs expiration_policy = 'redirect'; it is {policy!r}",
                "expiry_queue",
            )

    def to_record(self) -> dict[str, object]:
        """As JSON-able fields."""
        return record_of(self)

    def to_ledger(self) -> dict[str, object]:
        """As `to_record`, without what is as it is by default: every file of the ledger opens with the
        definitions in force, and there may be many.
        """
        return unusual_of(self, "kind")


QUEUE_BOUNDS: Final = bounds_of(QueueDefinition)
QUEUE_SETTINGS: Final = tuple(
    each.name for each in fields(QueueDefinition) if each.name not in IDENTITY_FIELDS
)
"""What can be set of a queue, topic or subscription."""


@dataclass(frozen=True)
class ConsumerOptions:
    """How a consumer or browser wants to read."""

    exclusive: bool = False
    """Nobody else may consume while this one does."""
    presettled: bool = False
    """Deliveries need no outcome; what is lost on the way is lost."""
    name: str = ""
    """Link name, for people."""
    container: str = ""
    user: str = ""
    selector: str = ""
    """Which messages it wants (`postroom.model.selector`); "" all."""
    redelivery_delay_ms: int = 0
    """How long what it fails at waits, where the queue doesn't say."""
    xa: bool = False
    """Whether it receives for XA branches; it doesn't go together with others on every queue."""
    channel: str = ""
    """The channel that it sends for."""


@dataclass(frozen=True)
class ManagerOptions:
    """The bounds of the queue manager."""

    queue_manager: str = "postroom"
    """Its name, by which others address its queues."""
    dead_letter_queue: str = ""
    """A queue here, for the dead letters of all queues that name no other, and for messages that came through
    channels and can't be delivered [DEADQ]; empty: none. `postroom.dead` is made at the start; one of another
    name has to be made, for channels at least."""
    default_transmission_queue: str = ""
    """For queue managers that have no transmission queue of their own here [DEFXMITQ]; empty: none."""
    report_persistence: str = setting("message", choices=("message", *DELIVERY_MODES))
    """Of the [reports](reports.md) that this queue manager makes; `message`: as the message that they are
    about."""
    max_hops: int = setting(16, least=1, most=MAX_HOPS)
    """Transmission queues that one message may be put on; one more, and it is undeliverable: it goes in a
    circle."""
    max_channels: int = 10_000
    max_channel_partners: int = 1000
    """Queue managers that one receiving channel knows; one more is refused."""
    max_remote_queues: int = 10_000
    """Definitions of remote queues and aliases."""
    max_queues: int = 1_000_000
    max_quotas: int = 10_000
    max_principals: int = 10_000
    """Users and roles in the ledger."""
    max_auto_created_queues: int = 10_000
    """Auto-created topics are counted, too."""
    max_routing_sets: int = 1000
    """Sets of subscriptions in force: those that messages were published to of late."""
    max_routing_set_members: int = 256 << 10
    """Subscriptions of all those sets together; one set may be larger."""
    auto_create: bool = True
    """Whether attaching to a name that doesn't exist creates a queue."""
    auto_created_idle_ms: int = 300_000
    """An auto-created queue without messages and consumers goes after so long without use."""
    max_message_bytes: int = 100 << 20
    max_consumers: int = 100_000
    max_unsettled_per_consumer: int = 10_000
    """Delivered to one consumer and not settled; further deliveries wait."""
    max_excluded_per_consumer: int = 10_000
    """Entries that one consumer has called undeliverable here; one more is refused."""
    body_cache_bytes: int = 64 << 20
    """Stored bodies kept in memory for entries near the head of their queue."""
    max_volatile_bytes: int = 256 << 20
    """Non-persistent messages in memory, overhead included; the put above it is refused."""
    max_live_entries: int = 256 << 10
    """Above it entries are packed as soon as a queue has `min_live_head` of them, available or delayed."""
    live_head: int = 8192
    """Entries at the head of a queue and priority that are objects; the rest is packed."""
    delayed_head: int = 65_536
    """Entries of a queue that are objects while they wait for a time; the rest is packed."""
    min_live_head: int = 64
    fetch_entries: int = 512
    """Bodies read ahead in one batch."""
    fetch_bytes: int = 4 << 20
    max_deliveries_per_turn: int = 1024
    max_delivery_bytes_per_turn: int = 8 << 20
    max_search_bytes: int = 64 << 20
    """Bodies that are being read for selectors; and again so many that are kept of what is wanted."""
    max_judgements_per_turn: int = 4096
    """Evaluations of selectors; what they are to find beyond that is found in the next turn."""
    max_expired_per_turn: int = 1024
    """Entries ended, born or released by the clock, too."""
    production_paused_at_startup: bool = False
    """What queues and topics that leave it at `default` start with ([pausing](queues.md#pausing))."""
    insertion_paused_at_startup: bool = False
    """Likewise."""
    consumption_paused_at_startup: bool = False
    """Likewise."""
    expiry_scan_ms: int = 500
    """Expired entries that nobody meets are noticed within this time."""
    release_backoff_after: int = 2
    """So many releases in a row of one entry by one link before its back-off begins."""
    release_backoff_ms: int = 10
    """The first back-off; it doubles up to the next."""
    max_release_backoff_ms: int = 10_000
    max_suspended_links: int = 10_000
    max_suspend_ms: int = 3_600_000
    quota_messages: int = NO_LIMIT
    """The broker's quota, with that of bytes: of all queues together that are under no other, in flight
    included; −1: no limit."""
    quota_bytes: int = NO_LIMIT
    """Likewise."""
    quota_policy: str = setting(POLICY_FIFO, choices=POLICIES)
    """Of the broker's quota: who goes in first when it has been full, in the order of coming, or
    (`preemptive`) whatever fits."""
    messages_threshold_high: int = NO_LIMIT
    """Thresholds of all queues together, under whatever quota: above high all senders are slowed down, until
    it is below low; −1: off."""
    messages_threshold_low: int = NO_LIMIT
    """Likewise low."""
    bytes_threshold_high: int = NO_LIMIT
    """Likewise of bytes."""
    bytes_threshold_low: int = NO_LIMIT
    """Likewise of bytes, low."""
    send_timeout_ms: int = setting(10, least=0)
    """How long a send waits for room where its link doesn't say; 0: not at all."""
    max_send_timeout_ms: int = setting(60_000, least=0)
    """The longest that a link may ask for."""
    max_blocked_bytes: int = setting(128 << 20, least=0)
    """Sends that wait for room, all links, 320 bytes more counted for each; one more is rejected at once."""
    max_blocked_bytes_per_link: int = setting(8 << 20, least=0)
    """Likewise, of one link."""
    flow_control: bool = True
    """Whether senders to a destination above its threshold are slowed down."""
    flow_maximum: int = setting(500, least=1)
    """Messages a second with which a sender that is slowed down begins."""
    flow_minimum: int = setting(50, least=1)
    """Messages a second to which it comes down; not above the maximum."""
    flow_interval_s: int = setting(60, least=1)
    """In this time."""
    flow_steps: int = setting(10, least=1, most=1000)
    """In so many steps."""
    name: str = "postroom"
    """Of the queue manager: the origin in the unique ids that it derives."""
    max_store_requests: int = setting(10_000, least=1)
    """Requests to message stores that wait, for a message or for a read; one more is refused."""
    max_store_readers: int = 64
    """Such requests that have bodies in memory, `store_page_bytes` or one batch each; the others wait."""
    max_store_wait_ms: int = setting(3_600_000, least=1)
    """The longest that one may wait for a message."""
    max_confirm_id_entries: int = setting(100_000, least=1)
    """What one confirm id may hold on one queue."""
    max_browse_lock_entries: int = setting(10_000, least=1)
    """What one browse may lock."""
    browse_lock_ms: int = setting(300_000, least=0)
    """The longest that a browse lock holds: what is still locked then is unlocked; 0: for ever."""
    max_scanned_entries: int = setting(100_000, least=1)
    """Messages whose bodies one request compares in vain with the properties that it asks for."""
    store_page_entries: int = 1000
    """Messages in one answer of the message store."""
    store_page_bytes: int = 1 << 20
    """Their bodies together, unless a single one is larger."""
    max_searched_per_turn: int = 2048
    """Messages that one request of message management looks at, or changes, before others have their turn."""
    max_moved_entries: int = 10_000
    """Messages in one move or replay, which is one block of the ledger."""
    max_message_cursors: int = 64
    """Open cursors of message management; one more is refused."""
    max_cursor_entries: int = 1_000_000
    """Messages of one cursor, 8 bytes each."""
    max_transactions: int = setting(10_000, least=1)
    """Local transactions open at a time; one more can't be declared."""
    max_transaction_entries: int = setting(100_000, least=1)
    """Sent and acknowledged in one; one more leaves nothing but rollback."""
    transaction_timeout_ms: int = setting(300_000, least=0)
    """A local transaction open for so long is rolled back; 0: never."""
    max_branch_messages: int = setting(256, least=1, most=MAX_BRANCH_MESSAGES)
    """Sent and received in one branch; one more rolls it back."""
    max_branches: int = setting(10_000, least=1)
    """[XA branches](xa.md) that are not rolled back, prepared and heuristically decided ones included; one
    more can't be started."""
    max_rolled_back_branches: int = 1000
    """Those remembered after their rollback, for whoever asks; the oldest is forgotten first."""
    branch_idle_timeout_ms: int = setting(300_000, least=0)
    """An XA branch that is not prepared and has heard nothing for so long is rolled back; 0: never."""
    max_sinks: int = setting(10_000, least=1)
    """Sinks (apps) that are known; one more is refused."""
    max_sink_branches: int = setting(10_000, least=1)
    """Undecided branches of all sinks; one more can't begin."""
    max_sink_branch_messages: int = setting(100_000, least=1, most=1_000_000)
    """In one branch; a message to a topic counts once for each subscription. The next is refused."""
    max_sink_messages: int = setting(1_000_000, least=1, most=10_000_000)
    """In all undecided branches; about 300 bytes of memory each; the next is refused."""
    max_sink_bytes: int = setting(16 << 30, least=1)
    """Of their bodies, which lie in the ledger; the next is refused."""
    sink_branch_lease_ms: int = setting(86_400_000, least=1)
    """A branch that is undecided for so long, since it began or was sealed, is rolled back, with an alarm."""
    sink_batches_remembered: int = setting(16, least=1, most=1000)
    """Decided batches of each sink whose digests are known."""
    max_spark_subscriptions: int = setting(1000, least=1)
    """Known at a time, those included that have ended and are not deleted; one more is refused."""
    max_spark_window: int = setting(1_000_000, least=1, most=10_000_000)
    """Messages that one of them may hold."""
    max_assigned_per_turn: int = 16 << 10
    """Entries given to Spark subscriptions, or taken back from one that has ended."""
    packed_run_entries: int = 64
    """So many packed entries in a row are assigned to one as they are; fewer are made objects first."""
    queue_defaults: QueueDefinition = field(default_factory=lambda: QueueDefinition(name="default"))
    """What a new queue or topic is like where nobody says more; see `new_queue`."""

    def __post_init__(self) -> None:
        """Raise DefinitionInvalid."""
        if not 1 <= self.max_branch_messages <= MAX_BRANCH_MESSAGES:
            raise DefinitionInvalid(
                f"max_branch_messages is {self.max_branch_messages}, must be 1 to {MAX_BRANCH_MESSAGES}",
                "max_branch_messages",
            )

    def new_queue(
        self, name: str, kind: str = KIND_QUEUE, usage: str = USAGE_NORMAL, temporary: bool = False
    ) -> QueueDefinition:
        """What a new queue or topic is like where nobody says more: as ``queue_defaults``.

        Nothing is ever taken off a transmission queue for its failures: that is its channel's business. The
        queue manager's dead-letter queue is the end of the way: what is there stays.
        """
        if usage != USAGE_NORMAL:
            return QueueDefinition(name=name, kind=kind, usage=usage, temporary=temporary)
        new = replace(self.queue_defaults, name=name, kind=kind, temporary=temporary)
        if name == self.dead_letter_queue:
            new = replace(new, redelivery_limit=NO_LIMIT, dead_letter_queue="")
        return new

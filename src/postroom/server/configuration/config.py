"""The configuration of a broker: typed, with defaults for everything, so that no file is needed.

Read from TOML. Every key that is unknown, of the wrong type or out of its bounds is reported with its path
and line.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import asdict

from postroom.manager.headers.transmission_header import MAX_HOPS
from postroom.manager.kernel.destination_checks import check_order
from postroom.manager.kernel.errors import DefinitionInvalid, ManagerError
from postroom.manager.kernel.name_rules import DEAD_LETTERS
from postroom.manager.kernel.options import (
    KIND_QUEUE,
    KIND_TOPIC,
    MAX_BRANCH_MESSAGES,
    ManagerOptions,
    QueueDefinition,
)
from postroom.manager.kernel.quota_definition import QuotaDefinition
from postroom.manager.names.remote_queues import RemoteQueueDefinition
from postroom.model.duplicates import MAX_DUPLICATE_WINDOW
from postroom.model.names import MANAGER_MARK
from postroom.server.addresses import DEFAULT_PORT, is_loopback, split_address
from postroom.server.configuration.channels import ChannelConfig, CredentialsConfig
from postroom.server.configuration.dead_letter_handlers import DeadLetterHandlerConfig
from postroom.server.configuration.http import HttpConfig
from postroom.server.configuration.passwords import PasswordHashError, parse_hash
from postroom.server.configuration.spark import SparkConfig
from postroom.server.configuration.values import Limit, Name, NotNegative, PlacedError, Positive
from postroom.server.configuration.websocket import WebSocketConfig

DEFAULT_TLS_PORT: Final = 5671
DEFAULT_DATA_FOLDER: Final = "postroom-data"
RESERVED_PREFIXES: Final = ("$", "postroom.")
"""Names that begin so belong to the broker: they are neither created on attach nor by request."""

Policy = Literal["fifo", "preemptive"]
Growth = Annotated[int, Meta(ge=100)]


def is_reserved(name: str) -> bool:
    """Whether ``name`` belongs to the broker itself."""
    return name.startswith(RESERVED_PREFIXES)


class ListenConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """One address to accept connections on."""

    address: str = f"127.0.0.1:{DEFAULT_PORT}"
    anonymous: bool | None = None
    """Whether a client needs no password; unset: yes on a loopback address, no elsewhere."""
    tls_certificate: str | None = None
    """PEM file with the certificate chain; makes this a TLS listener."""
    tls_key: str | None = None
    """PEM file with the private key; unset: it is in the certificate's file."""
    websocket: WebSocketConfig | None = None
    """Makes this a listener for AMQP over WebSocket."""

    def __post_init__(self) -> None:
        try:
            split_address(self.address)
        except ValueError as error:
            raise PlacedError(("address",), str(error)) from error
        if self.tls_key is not None and self.tls_certificate is None:
            raise PlacedError(("tls_key",), "without tls_certificate: name the certificate's file too")

    @property
    def host(self) -> str:
        return split_address(self.address)[0]

    @property
    def port(self) -> int:
        return split_address(self.address)[1]

    @property
    def allows_anonymous(self) -> bool:
        return is_loopback(self.host) if self.anonymous is None else self.anonymous


class LimitsConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Every bound that the server itself holds."""

    max_connections: Positive = 10_000
    max_frame_bytes: Annotated[int, Meta(ge=512, le=16 << 20)] = 256 << 10
    max_message_bytes: Annotated[int, Meta(ge=1, le=2 << 30)] = 100 << 20
    max_sessions: Annotated[int, Meta(ge=1, le=65_536)] = 256
    """Sessions a connection; channel-max is one less."""
    max_links: Annotated[int, Meta(ge=1, le=1 << 20)] = 4096
    """Links a session; handle-max is one less."""
    idle_timeout_ms: Annotated[int, Meta(ge=0, le=86_400_000)] = 60_000
    """A connection on which nothing arrives for so long is closed; 0 never."""
    open_timeout_ms: Positive = 10_000
    """Time from accept to the peer's open; a connection that takes longer is closed."""
    incoming_window_frames: Annotated[int, Meta(ge=16, le=1 << 20)] = 2048
    link_credit: Annotated[int, Meta(ge=1, le=100_000)] = 2000
    """Messages a sender may have on their way to the broker and not yet answered."""
    unsynced_bytes: Annotated[int, Meta(ge=64 << 10)] = 16 << 20
    """Received and not yet durable, all connections; at this bound reading from sockets stops."""
    inbox_bytes: Annotated[int, Meta(ge=16 << 10)] = 1 << 20
    """Read from one socket and not yet looked at; at this bound reading from it stops."""
    output_bytes: Annotated[int, Meta(ge=16 << 10)] = 1 << 20
    """Written to one connection and not yet taken by its socket; at this bound it gets no more deliveries."""
    deliveries_ahead: Annotated[int, Meta(ge=1, le=100_000)] = 2000
    """Messages given to one link that have not yet left through its socket, whatever its credit."""
    suspended_links: NotNegative = 10_000
    """Links that may be gone and resumable at one time."""
    suspended_timeout_s: Annotated[int, Meta(ge=0, le=3600)] = 3600
    """Longest time that a terminus is kept for a link that is gone."""
    max_channels: NotNegative = 1000
    """Channels that may be defined."""
    max_outgoing_connections: NotNegative = 1000
    """Connections that the broker has open, or is opening, itself; a channel more waits for its turn."""


class AutoCreateConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Queues that come to be because a client attaches to them."""

    enabled: bool = True
    consumers: bool = False
    """Whether who receives or browses creates queues, too, and not only who sends; or asks for it."""
    max_queues: NotNegative = 1000
    idle_s: NotNegative = 600
    """An auto-created queue that is empty and unused for so long is removed; 0: as soon as it is."""


class TransactionsConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of local transactions and of XA branches."""

    max_open: Positive = 10_000
    """Local transactions open at a time; one more can't be declared."""
    max_messages: Positive = 100_000
    """Sent and acknowledged in one local transaction; one more leaves nothing but rollback."""
    timeout_ms: NotNegative = 300_000
    """A local transaction that is open for so long is rolled back; 0 never."""
    max_branches: Positive = 10_000
    """XA branches, prepared and heuristically decided ones included; one more can't be started."""
    max_branch_messages: Annotated[int, Meta(ge=1, le=MAX_BRANCH_MESSAGES)] = 256
    """Sent and received in one branch; one more rolls it back."""
    branch_idle_timeout_ms: NotNegative = 300_000
    """A branch that is not prepared and has heard nothing for so long is rolled back; 0 never."""


class StartupConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """What queues and topics that don't say it themselves start with."""

    production_paused: bool = False
    insertion_paused: bool = False
    consumption_paused: bool = False


class LogConfig(Struct, frozen=True, forbid_unknown_fields=True):
    json: bool = False
    level: Literal["debug", "info", "warning", "error"] = "info"


class MessageLogConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The message log, ``jms.messages.log`` in the data folder, for destinations with ``message_logging`` or
    the expiration policy "log"."""

    interval_s: Annotated[float, Meta(gt=0, le=3600)] = 5.0
    """How often the ledger is looked at. A look reads the newest file of the ledger."""
    max_file_bytes: Annotated[int, Meta(ge=4096)] = 64 << 20
    """A file that has grown so large is followed by a new one."""
    max_files: Annotated[int, Meta(ge=1, le=1000)] = 7
    """Files that are kept; older ones go."""
    content: bool = False
    """Whether application properties and body are written, too."""
    max_content_chars: Positive = 4096
    """Of each; what is longer is cut off."""


class LedgerConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """What the ledger may use; see the ledger's reference for the meaning of each."""

    journal_file_bytes: Annotated[int, Meta(ge=1 << 20, le=1 << 30)] = 256 << 20
    reserve_bytes: NotNegative = 64 << 20
    """Set aside ahead of the writing place; when the disk can't give it, new messages are refused."""
    retention_bytes: NotNegative = 16 << 30
    """History above this goes, oldest first."""
    retention_s: NotNegative = 0
    """History older than this goes too; 0 no limit by age."""
    max_leases: NotNegative = 64
    """Readers' leases at a time, broken ones that were not released included."""
    max_lease_s: Positive = 7 * 86_400
    """Longest time from a lease's grant or renewal to its end."""
    max_lease_bytes: Positive = 16 << 30
    """Most that one lease may keep of what would have gone without it."""
    standby: bool = False
    """Wait for the folder's lock instead of failing where another process has it."""


class QueueConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """One queue that is made at the start unless it exists; one that exists takes these settings."""

    name: Name
    usage: Literal["normal", "transmission"] = "normal"
    """"transmission": messages for another queue manager wait here for a channel."""
    access: Literal["shared", "exclusive"] = "shared"
    """"exclusive": one consumer at a time, the others stand by."""
    standby: bool = True
    """With exclusive access: whether others may attach and wait; otherwise they are refused."""
    max_consumers: Positive = 1000
    max_unsettled_per_consumer: Annotated[int, Meta(ge=-1)] = -1
    """Delivered to one consumer and not settled, at least 1; -1: 10,000."""
    max_messages: Limit = -1
    """A quota of its own: held at most, in flight included; -1 no limit."""
    max_bytes: Limit = -1
    quota_policy: Policy = "fifo"
    quota: str = ""
    """The quota resource that it is under; empty, and no limits of its own: the broker's quota."""
    messages_threshold_high: Limit = -1
    """Above it senders are slowed down, until there are fewer than messages_threshold_low; -1 off."""
    messages_threshold_low: Limit = -1
    bytes_threshold_high: Limit = -1
    bytes_threshold_low: Limit = -1
    time_to_deliver_ms: Limit = -1
    """Messages can be received so long after their arrival, whatever their sender says; -1 as that says."""
    delivery_schedule: str = ""
    """Or from the next moment of this schedule on."""
    ttl_override_ms: Limit = -1
    priority_override: Annotated[int, Meta(ge=-1, le=9)] = -1
    delivery_mode_override: Literal["", "persistent", "non-persistent"] = ""
    persistent: bool = True
    """Whether it has a store; without one it takes no persistent messages."""
    allow_persistent_downgrade: bool = False
    max_message_bytes: Limit = -1
    duplicate_window: Annotated[int, Meta(ge=0, le=MAX_DUPLICATE_WINDOW)] = 0
    """So many message ids taken last are remembered; what comes again is accepted and dropped. 0 none."""
    body_retention_s: NotNegative = 0
    """Bodies of messages that have ended stay so long for readers of the ledger; 0 not at all."""
    max_ttl_ms: Limit = -1
    """A message expires at the latest so long after its arrival."""
    respect_ttl: bool = True
    """Whether the time to live that senders give counts."""
    redelivery_limit: Limit | UnsetType = UNSET
    """Failures after which a message is still delivered again; above, it goes to the dead-letter queue. -1 no
    limit. Unset, as the next three and dead_letter_queue: as `[queue_defaults]` says."""
    redelivery_delay_ms: Limit | UnsetType = UNSET
    """How long a message waits after a failure; -1: as its consumer says."""
    redelivery_delay_multiplier_percent: Growth | UnsetType = UNSET
    """The delay of each further failure is so much of the one before."""
    max_redelivery_delay_ms: Limit | UnsetType = UNSET
    """It grows to no more than this; -1: ten times the first."""
    lost_link_counts: bool = False
    """Whether a delivery that came back by a broken link is charged to the redelivery limit."""
    undo_counts: bool = False
    """Message store: whether what is got and taken back by undo is charged to the redelivery limit."""
    dead_letter_queue: str | UnsetType = UNSET
    """Where rejected messages and those over the limit go; empty: they are discarded."""
    dead_letter_eligible_only: bool = False
    """Only messages whose sender says that they may become dead letters or are redirected."""
    expiration_policy: Literal["discard", "log", "redirect"] = "discard"
    expiry_queue: str = ""
    """Where expired messages are redirected; empty: to the dead-letter queue."""
    message_logging: bool = False
    """Whether the message log tells what happens to its messages."""
    production_paused_at_startup: Literal["default", "true", "false"] = "default"
    insertion_paused_at_startup: Literal["default", "true", "false"] = "default"
    consumption_paused_at_startup: Literal["default", "true", "false"] = "default"
    group_buckets: NotNegative = 0
    """Message groups: into so many buckets, each with one consumer at a time; 0 none."""
    unit_of_order: bool = False
    """Whether the members of a unit of order are processed one after another."""
    max_unit_members: Positive = 1_000_000
    confirm_id_required: bool = True
    """Message store: whether confirming by unique id needs the confirm id, too."""

    def __post_init__(self) -> None:
        _check_not_reserved(self.name)

    def definition(self, options: ManagerOptions) -> QueueDefinition:
        """As the queue manager defines it: what is not said here is as its options say."""
        kind = KIND_TOPIC if isinstance(self, TopicConfig) else KIND_QUEUE
        settings = {key: value for key, value in asdict(self).items() if value is not UNSET}
        return replace(options.new_queue(self.name, kind, self.usage), **settings)


class TopicConfig(QueueConfig, frozen=True, forbid_unknown_fields=True):
    """One topic that is made at the start unless it exists; one that exists takes these settings.

    They are those of the subscriptions to it that are made from then on.
    """


class QueueDefaultsConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """What queues, topics and subscriptions that don't say it themselves are made with, however they come to
    be; transmission queues aren't. -1 (and an empty dead_letter_queue) is what the originals do."""

    redelivery_limit: Limit = 10
    redelivery_delay_ms: Limit = 500
    redelivery_delay_multiplier_percent: Growth = 200
    max_redelivery_delay_ms: Limit = 60_000
    dead_letter_queue: str | UnsetType = UNSET
    """Unset: the queue manager's."""

    def definition(self, dead_letter_queue: str) -> QueueDefinition:
        """The pattern of new queues; ``dead_letter_queue`` is the queue manager's."""
        settings = asdict(self)
        if self.dead_letter_queue is UNSET:
            settings["dead_letter_queue"] = dead_letter_queue
        return QueueDefinition(name="default", **settings)


class QuotaConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """One quota that is made at the start unless it exists; one that exists takes these settings."""

    name: Name
    messages_maximum: Limit = -1
    """-1 no limit, 0 nothing may be stored."""
    bytes_maximum: Limit = -1
    policy: Policy = "fifo"
    """"fifo": sends that wait go in in their order; "preemptive": whichever fits."""
    shared: bool = True
    """One pool for all queues that name it; otherwise one of this size for each."""

    def __post_init__(self) -> None:
        _check(QuotaDefinition(**asdict(self)))


class RemoteQueueConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """One remote queue or alias that is defined at the start; one that exists takes these settings."""

    name: Name
    remote_queue: str = ""
    """The queue's name there; empty: a queue-manager alias."""
    remote_queue_manager: str = ""
    transmission_queue: str = ""
    """Empty: the one that has the queue manager's name, else the default one."""
    description: str = ""

    def __post_init__(self) -> None:
        _check_not_reserved(self.name)
        _check(RemoteQueueDefinition(**asdict(self)))


class QueueManagerConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """What this queue manager, whose name is the container id, is to others."""

    dead_letter_queue: str = DEAD_LETTERS
    """A queue here, for the dead letters of queues that name no other, and for messages that came from other
    queue managers and can't be delivered; empty: none."""
    default_transmission_queue: str = ""
    """Where messages for queue managers wait that have no transmission queue of their own."""
    max_hops: Annotated[int, Meta(ge=1, le=MAX_HOPS)] = 16
    """Transmission queues that one message may be put on; above it counts as going in a circle."""
    report_persistence: Literal["message", "persistent", "non-persistent"] = "message"
    """Of the reports that this queue manager makes; "message": as the message that they are about."""


def _check_not_reserved(name: str) -> None:
    if is_reserved(name):
        prefixes = " or ".join(RESERVED_PREFIXES)
        raise PlacedError(("name",), f"{name!r} is reserved: names may not begin with {prefixes}")


def _check(definition: QueueDefinition | QuotaDefinition | RemoteQueueDefinition, *place: str | int) -> None:
    try:
        definition.check()
    except DefinitionInvalid as error:
        raise PlacedError((*place, error.key) if error.key else place, error.description) from error
    except ManagerError as error:
        raise PlacedError(place, error.description) from error


class SendingConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The broker's quota, and sends that wait for room."""

    max_messages: Limit = -1
    """Held at most by all queues that are under no other quota; -1 no limit."""
    max_bytes: Limit = -1
    quota_policy: Policy = "fifo"
    messages_threshold_high: Limit = -1
    """Above it all senders are slowed down, until there are fewer than messages_threshold_low; -1 off."""
    messages_threshold_low: Limit = -1
    bytes_threshold_high: Limit = -1
    bytes_threshold_low: Limit = -1
    send_timeout_ms: NotNegative = 10
    """How long a send waits for room where its link doesn't say; 0 not at all."""
    max_send_timeout_ms: NotNegative = 60_000
    """The longest that a link may ask for."""
    max_blocked_bytes: NotNegative = 128 << 20
    """Sends that wait for room, all links; one more is refused at once."""
    max_blocked_bytes_per_link: NotNegative = 8 << 20

    def __post_init__(self) -> None:
        try:
            check_order(
                "the broker",
                "messages",
                self.messages_threshold_low,
                self.messages_threshold_high,
                self.max_messages,
            )
            check_order(
                "the broker", "bytes", self.bytes_threshold_low, self.bytes_threshold_high, self.max_bytes
            )
        except DefinitionInvalid as error:
            raise PlacedError((error.key,), error.description) from error


class FlowControlConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """How senders to a queue above its threshold are slowed down."""

    enabled: bool = True
    maximum: Positive = 500
    """Messages a second with which a sender begins."""
    minimum: Positive = 50
    """Messages a second to which it comes down."""
    interval_s: Positive = 60
    """In this time."""
    steps: Annotated[int, Meta(ge=1, le=1000)] = 10
    """In so many steps."""

    def __post_init__(self) -> None:
        if self.minimum > self.maximum:
            raise PlacedError(("minimum",), f"{self.minimum} is above the maximum ({self.maximum})")


class MessageStoreConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """What the verbs of the message store may hold."""

    browse_lock_ms: NotNegative = 300_000
    """The longest that a browse lock holds; what is still locked then is unlocked. 0 for ever."""
    max_browse_lock_messages: Positive = 10_000
    max_confirm_id_messages: Positive = 100_000
    """On one queue."""
    max_waiting_requests: Positive = 10_000
    max_wait_ms: Positive = 3_600_000
    max_compared_messages: Positive = 100_000
    """Bodies that one request compares in vain with the application properties that it asks for."""


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that `postroom serve` needs to know."""

    data: str = DEFAULT_DATA_FOLDER
    """Folder of the ledger; relative to the working directory."""
    container_id: Name = "postroom"
    listen: list[ListenConfig] = field(default_factory=lambda: [ListenConfig()])
    users: dict[str, str] = {}
    """User name → hashed password (`postroom user hash`)."""
    limits: LimitsConfig = LimitsConfig()
    auto_create: AutoCreateConfig = AutoCreateConfig()
    queue_defaults: QueueDefaultsConfig = QueueDefaultsConfig()
    ledger: LedgerConfig = LedgerConfig()
    log: LogConfig = LogConfig()
    message_log: MessageLogConfig = MessageLogConfig()
    startup: StartupConfig = StartupConfig()
    transactions: TransactionsConfig = TransactionsConfig()
    sending: SendingConfig = SendingConfig()
    flow_control: FlowControlConfig = FlowControlConfig()
    message_store: MessageStoreConfig = MessageStoreConfig()
    spark: SparkConfig = SparkConfig()
    quota: list[QuotaConfig] = []
    queue: list[QueueConfig] = []
    topic: list[TopicConfig] = []
    credentials: dict[str, CredentialsConfig] = {}
    """Table of files → who the broker is where it connects itself."""
    channel: list[ChannelConfig] = []
    queue_manager: QueueManagerConfig = QueueManagerConfig()
    remote_queue: list[RemoteQueueConfig] = []
    dead_letter_handler: list[DeadLetterHandlerConfig] = []
    http: HttpConfig | None = None
    """Unset: nothing is served over HTTP."""

    def __post_init__(self) -> None:
        if MANAGER_MARK in self.container_id:
            what = f"{self.container_id!r}: the name of a queue manager may not have {MANAGER_MARK!r} in it"
            raise PlacedError(("container_id",), what)
        if not self.listen:
            raise PlacedError(("listen",), "is empty: give at least one address")
        _check_users(self.users)
        _check_names("queue", [queue.name for queue in self.queue])
        _check_names("topic", [topic.name for topic in self.topic])
        self._check_queues()
        _check_names("quota", [quota.name for quota in self.quota])
        _check_names("channel", [channel.name for channel in self.channel])
        _check_credentials(self.channel, self.credentials)
        _check_names("remote_queue", [remote.name for remote in self.remote_queue])

    def _check_queues(self) -> None:
        """What a queue says must go with what the defaults say for it."""
        options = self.queue_options()
        _check(options.queue_defaults, "queue_defaults")
        for index, queue in enumerate(self.queue):
            _check(queue.definition(options), "queue", index)
        for index, topic in enumerate(self.topic):
            _check(topic.definition(options), "topic", index)

    def queue_options(self) -> ManagerOptions:
        """Those of the queue manager's options that say what new queues are like."""
        dead_letter_queue = self.queue_manager.dead_letter_queue
        defaults = self.queue_defaults.definition(dead_letter_queue)
        return ManagerOptions(dead_letter_queue=dead_letter_queue, queue_defaults=defaults)

    @property
    def data_folder(self) -> Path:
        return Path(self.data)


def _check_users(users: dict[str, str]) -> None:
    for name, stored in users.items():
        try:
            parse_hash(stored)
        except PasswordHashError as error:
            raise PlacedError(("users", name), str(error)) from error


def _check_credentials(channels: list[ChannelConfig], known: dict[str, CredentialsConfig]) -> None:
    for index, channel in enumerate(channels):
        if channel.credentials and channel.credentials not in known:
            what = f"{channel.credentials!r} is no table: there is no [credentials.{channel.credentials}]"
            raise PlacedError(("channel", index, "credentials"), what)


def _check_names(table: str, names: list[str]) -> None:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            raise PlacedError((table, index, "name"), f"{table} {name!r} is defined twice")
        seen.add(name)

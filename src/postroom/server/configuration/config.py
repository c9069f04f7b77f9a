"""The configuration of a broker: typed, with defaults for everything, so that no file is needed.

Read from TOML. Every key that is unknown, of the wrong type or out of its bounds is reported with its path
and line.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, field

from postroom.manager.kernel.destination_checks import check_order
from postroom.manager.kernel.errors import DefinitionInvalid, ManagerError
from postroom.manager.kernel.name_rules import DEAD_LETTERS
from postroom.manager.kernel.options import (
    KIND_QUEUE,
    KIND_TOPIC,
    QUEUE_DEFAULTS,
    QUEUE_SETTINGS,
    ManagerOptions,
    QueueDefinition,
)
from postroom.manager.kernel.quota_definition import QuotaDefinition
from postroom.manager.names.remote_queue_definition import RemoteQueueDefinition
from postroom.model.names import MANAGER_MARK
from postroom.server.addresses import DEFAULT_PORT, is_loopback
from postroom.server.configuration.channels import ChannelConfig, CredentialsConfig
from postroom.server.configuration.dead_letter_handlers import DeadLetterHandlerConfig
from postroom.server.configuration.http import HttpConfig
from postroom.server.configuration.limits import UserLimitConfig
from postroom.server.configuration.listening import (
    ListenConfig,
    check_mechanisms,
    check_token_mechanisms,
    check_users,
)
from postroom.server.configuration.oauth import OAuthConfig
from postroom.server.configuration.replication import ReplicationConfig
from postroom.server.configuration.roles import RoleConfig, check_roles
from postroom.server.configuration.sign_in import (
    CertificateUserConfig,
    SignInConfig,
    SignInRuleConfig,
    check_rules,
)
from postroom.server.configuration.tracing import TracingConfig
from postroom.server.configuration.values import (
    Name,
    NotNegative,
    PlacedError,
    Positive,
    SettingsTable,
    check_names,
    settings_of,
)

DEFAULT_DATA_FOLDER: Final = "postroom-data"
RESERVED_PREFIXES: Final = ("$", "postroom.")
"""Names that begin so belong to the broker: they are neither created on attach nor by request."""


def is_reserved(name: str) -> bool:
    """Whether ``name`` belongs to the broker itself."""
    return name.startswith(RESERVED_PREFIXES)


class LimitsConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Every bound that the server itself holds."""

    max_connections: Positive = 10_000
    """More are cut as they come."""
    max_frame_bytes: Annotated[int, Meta(ge=512, le=16 << 20)] = 256 << 10
    """Largest frame taken; advertised in open."""
    max_message_bytes: Annotated[int, Meta(ge=1, le=2 << 30)] = 100 << 20
    """Advertised in the attach; a larger message detaches its link."""
    max_sessions: Annotated[int, Meta(ge=1, le=65_536)] = 256
    """Of one connection; channel-max is one less."""
    max_links: Annotated[int, Meta(ge=1, le=1 << 20)] = 4096
    """Of one session; handle-max is one less."""
    idle_timeout_ms: Annotated[int, Meta(ge=0, le=86_400_000)] = 60_000
    """A connection on which nothing comes for so long is closed; half of it is advertised; 0: never."""
    open_timeout_ms: Positive = 10_000
    """Time from accept to the peer's open; a connection that takes longer is closed."""
    incoming_window_frames: Annotated[int, Meta(ge=16, le=1 << 20)] = 2048
    """Of one session."""
    link_credit: Annotated[int, Meta(ge=1, le=100_000)] = 2000
    """Messages that a sender may have unanswered; credit comes back with the answers."""
    unsynced_bytes: Annotated[int, Meta(ge=64 << 10)] = 16 << 20
    """Received and not yet durable, of all connections; at this bound, or at a quarter of `reserve_bytes`,
    reading from sockets stops."""
    inbox_bytes: Annotated[int, Meta(ge=16 << 10)] = 1 << 20
    """Read from one socket and not yet looked at; at this bound reading from it stops."""
    output_bytes: Annotated[int, Meta(ge=16 << 10)] = 1 << 20
    """Written to one connection and not yet taken by its socket; at this bound it gets no more deliveries."""
    deliveries_ahead: Annotated[int, Meta(ge=1, le=100_000)] = 2000
    """Messages given to one link that have not yet left through its socket, whatever its credit (and about 4
    MiB of them at most)."""
    busy_poll_us: Annotated[int, Meta(ge=0, le=10_000)] = 100
    """Where one request follows the last answer within this time, again and again, the loop waits awake for
    the next one, which saves the processor's waking up; 0: it always sleeps."""
    suspended_links: NotNegative = 10_000
    """Links that are gone and may be resumed."""
    suspended_timeout_s: Annotated[int, Meta(ge=0, le=3600)] = 3600
    """Longest time that such a link is kept, whatever it asks for."""
    max_channels: NotNegative = 1000
    """[Channels](channels.md) that may be defined."""
    max_outgoing_connections: NotNegative = 1000
    """Connections that the broker has open, or is opening, itself; a channel more waits for its turn."""


class AutoCreateConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Queues that come to be because a client attaches to them."""

    enabled: bool = True
    """Otherwise nobody creates: every such attach is refused with `amqp:not-found`."""
    consumers: bool = False
    """Whether to receive or browse creates, too, as with ActiveMQ Artemis."""
    max_queues: NotNegative = 1000
    """More are refused with `amqp:resource-limit-exceeded`."""
    idle_s: NotNegative = 600
    """An auto-created queue that is empty and has had no link, sender or receiver, for so long is removed; 0:
    as soon as it is."""


@settings_of(
    ManagerOptions,
    ("max_branches", "max_branch_messages", "branch_idle_timeout_ms"),
    renamed={
        "max_open": "max_transactions",
        "max_messages": "max_transaction_entries",
        "timeout_ms": "transaction_timeout_ms",
    },
)
class TransactionsConfig(SettingsTable):
    """Bounds of local transactions and of XA branches."""


@settings_of(
    ManagerOptions,
    (),
    renamed={
        "production_paused": "production_paused_at_startup",
        "insertion_paused": "insertion_paused_at_startup",
        "consumption_paused": "consumption_paused_at_startup",
    },
)
class StartupConfig(SettingsTable):
    """What queues and topics that don't say it themselves start with."""


class LogConfig(Struct, frozen=True, forbid_unknown_fields=True):
    json: bool = False
    """One JSON object a line instead of `key=value`."""
    level: Literal["debug", "info", "warning", "error"] = "info"


class MessageLogConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The message log, ``jms.messages.log`` in the data folder, for destinations with ``message_logging`` or
    the expiration policy "log"."""

    interval_s: Annotated[float, Meta(gt=0, le=3600)] = 5.0
    """How often the ledger is looked at; each look reads its newest file."""
    max_file_bytes: Annotated[int, Meta(ge=4096)] = 64 << 20
    """A file that has grown so large is followed by a new one."""
    max_files: Annotated[int, Meta(ge=1, le=1000)] = 7
    """Files that are kept; older ones go."""
    content: bool = False
    """Whether application properties and body are written, too."""
    max_content_chars: Positive = 4096
    """Of each record's content; what is longer is cut off."""


class LedgerConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """What the ledger may use; see the ledger's reference for the meaning of each."""

    journal_file_bytes: Annotated[int, Meta(ge=1 << 20, le=1 << 30)] = 256 << 20
    """A journal file is followed by the next above this."""
    reserve_bytes: NotNegative = 64 << 20
    """Set aside ahead of the writing place, at most 1/8 of the volume; when the disk gives no more and half
    of it is used, new messages are rejected with `amqp:resource-limit-exceeded` while outcomes go on, until
    there is room again ([what goes then, in which order](../explanation/ledger.md#when-the-disk-is-full))."""
    retention_bytes: NotNegative = 16 << 30
    """History above this goes, oldest first."""
    retention_s: NotNegative = 0
    """History older than this goes too; 0: no limit by age."""
    acts_retention_bytes: NotNegative = 1 << 30
    """[Acts](users.md#acts) outlive their history up to this size, at most 1/8 of the volume; then the oldest
    go. 0: they go with their history."""
    acts_retention_s: NotNegative = 0
    """Acts older than this go too; 0: no limit by age."""
    max_leases: NotNegative = 64
    """[Readers' leases](ledger-options.md#leases) at a time, broken ones that were not released included."""
    max_lease_s: Positive = 7 * 86_400
    """Longest time from a lease's grant or renewal to its end."""
    max_lease_bytes: Positive = 16 << 30
    """Most that one lease may keep of what would have gone without it."""
    standby: bool = False
    """Wait for the folder's lock instead of failing where another process has it."""


_UNSET: Final = dict.fromkeys(QUEUE_DEFAULTS, UNSET)
"""As `[queue_defaults]` says."""


@settings_of(QueueDefinition, ("name", *QUEUE_SETTINGS), defaults=_UNSET)
class QueueConfig(SettingsTable):
    """One queue that is made at the start unless it exists; one that exists takes these settings."""

    name: Name
    """Not beginning with `$` or `postroom.`."""

    def __post_init__(self) -> None:
        _check_not_reserved(self.name)

    def definition(self, options: ManagerOptions) -> QueueDefinition:
        """As the queue manager defines it: what is not said here is as its options say."""
        kind = KIND_TOPIC if isinstance(self, TopicConfig) else KIND_QUEUE
        return replace(options.new_queue(self.name, kind, self.usage), **self.values())


class TopicConfig(QueueConfig):
    """One topic that is made at the start unless it exists; one that exists takes these settings.

    They are those of the subscriptions to it that are made from then on.
    """


@settings_of(
    QueueDefinition,
    QUEUE_DEFAULTS,
    defaults={
        "redelivery_limit": 10,
        "redelivery_delay_ms": 500,
        "redelivery_delay_multiplier_percent": 200,
        "max_redelivery_delay_ms": 60_000,
        "dead_letter_queue": UNSET,
    },
)
class QueueDefaultsConfig(SettingsTable):
    """What queues, topics and subscriptions that don't say it themselves are made with, however they come to
    be; transmission queues aren't. -1 (and an empty dead_letter_queue) is what the originals do. Unless
    dead_letter_queue is set, it is the queue manager's."""

    def definition(self, dead_letter_queue: str) -> QueueDefinition:
        """The pattern of new queues; ``dead_letter_queue`` is the queue manager's."""
        return QueueDefinition(name="default", **{"dead_letter_queue": dead_letter_queue, **self.values()})


@settings_of(QuotaDefinition)
class QuotaConfig(SettingsTable):
    """One quota that is made at the start unless it exists; one that exists takes these settings."""

    name: Name

    def __post_init__(self) -> None:
        _check(QuotaDefinition(**self.values()))


@settings_of(RemoteQueueDefinition)
class RemoteQueueConfig(SettingsTable):
    """One remote queue or alias that is defined at the start; one that exists takes these settings."""

    name: Name
    """Not beginning with `$` or `postroom.`."""

    def __post_init__(self) -> None:
        _check_not_reserved(self.name)
        _check(RemoteQueueDefinition(**self.values()))


@settings_of(
    ManagerOptions,
    ("dead_letter_queue", "default_transmission_queue", "max_hops", "report_persistence"),
    defaults={"dead_letter_queue": DEAD_LETTERS},
)
class QueueManagerConfig(SettingsTable):
    """What this queue manager, whose name is the container id, is to others."""


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


@settings_of(
    ManagerOptions,
    (
        *("quota_policy", "messages_threshold_high", "messages_threshold_low"),
        *("bytes_threshold_high", "bytes_threshold_low", "send_timeout_ms", "max_send_timeout_ms"),
        *("max_blocked_bytes", "max_blocked_bytes_per_link"),
    ),
    renamed={"max_messages": "quota_messages", "max_bytes": "quota_bytes"},
)
class SendingConfig(SettingsTable):
    """The broker's quota, and sends that wait for room."""

    def __post_init__(self) -> None:
        try:
            for what in ("messages", "bytes"):
                low, high = (getattr(self, f"{what}_threshold_{end}") for end in ("low", "high"))
                check_order("the broker", what, low, high, getattr(self, f"max_{what}"))
        except DefinitionInvalid as error:
            raise PlacedError((error.key,), error.description) from error


@settings_of(
    ManagerOptions,
    (),
    renamed={
        "enabled": "flow_control",
        "maximum": "flow_maximum",
        "minimum": "flow_minimum",
        "interval_s": "flow_interval_s",
        "steps": "flow_steps",
    },
)
class FlowControlConfig(SettingsTable):
    """How senders to a queue above its threshold are slowed down."""

    def __post_init__(self) -> None:
        if self.minimum > self.maximum:
            raise PlacedError(("minimum",), f"{self.minimum} is above the maximum ({self.maximum})")


@settings_of(
    ManagerOptions,
    ("browse_lock_ms",),
    renamed={
        "max_browse_lock_messages": "max_browse_lock_entries",
        "max_confirm_id_messages": "max_confirm_id_entries",
        "max_waiting_requests": "max_store_requests",
        "max_wait_ms": "max_store_wait_ms",
        "max_compared_messages": "max_scanned_entries",
    },
)
class MessageStoreConfig(SettingsTable):
    """What the verbs of the message store may hold."""


@settings_of(
    ManagerOptions,
    (
        *("max_sinks", "max_sink_branches", "max_sink_branch_messages", "max_sink_messages"),
        *("max_sink_bytes", "sink_branch_lease_ms", "sink_batches_remembered"),
        *("max_spark_subscriptions", "max_spark_window"),
    ),
)
class SparkConfig(SettingsTable):
    """Bounds of Spark sinks and Spark subscriptions."""


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that `postroom serve` needs to know."""

    data: str = DEFAULT_DATA_FOLDER
    """Folder of the ledger, relative to the working directory; one process at a time owns it."""
    container_id: Name = "postroom"
    """Container id in the broker's open, and the name of the queue manager; without "@"."""
    listen: list[ListenConfig] = field(default_factory=lambda: [ListenConfig()])
    users: dict[str, str | list[str]] = {}
    """User name → what is kept of the password (`postroom user hash`), in one form or several."""
    role: list[RoleConfig] = []
    certificate_user: list[CertificateUserConfig] = []
    """The first that a certificate matches counts; without any, its common name is the user."""
    sign_in_rule: list[SignInRuleConfig] = []
    """The first that speaks of a sign-in counts; without any, all may sign in as listeners offer it."""
    sign_in: SignInConfig = SignInConfig()
    oauth: OAuthConfig | None = None
    """Unset: no tokens are taken."""
    limits: LimitsConfig = LimitsConfig()
    user_limit: list[UserLimitConfig] = []
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
    """Unset: as the default, where AMQP is taken on this machine alone, on port 5672; else nothing."""
    tracing: TracingConfig | None = None
    """Unset: nothing is traced."""
    replication: ReplicationConfig | None = None
    """Unset: the ledger is on this machine alone."""

    def __post_init__(self) -> None:
        if MANAGER_MARK in self.container_id:
            what = f"{self.container_id!r}: the name of a queue manager may not have {MANAGER_MARK!r} in it"
            raise PlacedError(("container_id",), what)
        if not self.listen:
            raise PlacedError(("listen",), "is empty: give at least one address")
        check_users(self.passwords, self.listen)
        check_mechanisms(self.listen, self.passwords)
        check_token_mechanisms(self.listen, self.oauth is not None)
        check_rules(self.sign_in_rule, self.listen)
        check_names("queue", [queue.name for queue in self.queue])
        check_names("topic", [topic.name for topic in self.topic])
        self._check_queues()
        check_names("user_limit", [limit.user for limit in self.user_limit], "user")
        check_names("quota", [quota.name for quota in self.quota])
        check_names("channel", [channel.name for channel in self.channel])
        _check_credentials(self.channel, self.credentials)
        check_names("remote_queue", [remote.name for remote in self.remote_queue])
        check_roles(self.role, self.users)

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
    def passwords(self) -> dict[str, tuple[str, ...]]:
        """User name → what is kept of the password, in one form or several."""
        return {user: (kept,) if isinstance(kept, str) else tuple(kept) for user, kept in self.users.items()}

    @property
    def http_served(self) -> HttpConfig | None:
        """What is served over HTTP: as configured, or the default beside AMQP's default; None: nothing.

        Who has chosen another port for AMQP may have another broker beside it, and chooses one for HTTP, too.
        """
        if self.http is not None:
            return self.http if self.http.enabled else None
        is_default = any(each.port == DEFAULT_PORT for each in self.listen)
        return HttpConfig() if is_default and all(is_loopback(each.host) for each in self.listen) else None

    @property
    def data_folder(self) -> Path:
        return Path(self.data)


def _check_credentials(channels: list[ChannelConfig], known: dict[str, CredentialsConfig]) -> None:
    for index, channel in enumerate(channels):
        if channel.credentials and channel.credentials not in known:
            what = f"{channel.credentials!r} is no table: there is no [credentials.{channel.credentials}]"
            raise PlacedError(("channel", index, "credentials"), what)

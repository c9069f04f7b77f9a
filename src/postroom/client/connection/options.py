"""How the sessions, producers and consumers of a connection behave: the options of Qpid JMS.

Each is a keyword here, and an option of the URL by its name in Qpid JMS (``?jms.prefetchPolicy.all=10``);
what the URL says counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Any, Final

from postroom.amqp.encoding.types import MAX_UINT
from postroom.amqp.frames.outcomes import ACCEPTED, RELEASED, DeliveryState, Modified, Rejected
from postroom.amqp.frames.sasl import EXTERNAL, TOKEN_MECHANISMS
from postroom.client.connection.sign_in import USER_MECHANISMS
from postroom.client.connection.url import ParsedUrl
from postroom.client.durations import MS_A_SECOND, check_duration
from postroom.client.messages.message_tracing import MessageTracing

DEFAULT_PREFETCH: Final = 1_000
MAX_PREFETCH: Final = 32_767
DEFAULT_TIMEOUT_S: Final = 60.0
NO_LIMIT: Final = -1
MIN_FRAME_SIZE_BYTES: Final = 512
"""Every peer may send so much (part 2, section 2.4.1)."""


class RedeliveryOutcome(IntEnum):
    """What becomes of a message that came too often; the numbers are those of Qpid JMS."""

    ACCEPTED = 1
    """Done: it is lost."""
    REJECTED = 2
    """No good: to the dead letters."""
    RELEASED = 3
    """Back as if it had never left."""
    MODIFIED_FAILED = 4
    """Back, and the attempt counts."""
    MODIFIED_FAILED_UNDELIVERABLE = 5
    """Back, the attempt counts, and not to this consumer again."""

    @property
    def state(self) -> DeliveryState:
        """The outcome that the broker is told."""
        return _STATES[self]


_STATES: Final[dict[RedeliveryOutcome, DeliveryState]] = {
    RedeliveryOutcome.ACCEPTED: ACCEPTED,
    RedeliveryOutcome.REJECTED: Rejected(None),
    RedeliveryOutcome.RELEASED: RELEASED,
    RedeliveryOutcome.MODIFIED_FAILED: Modified(delivery_failed=True),
    RedeliveryOutcome.MODIFIED_FAILED_UNDELIVERABLE: Modified(delivery_failed=True, undeliverable_here=True),
}


class RecoverMode(StrEnum):
    """What ``Session.recover`` does with what was handed out and has no outcome."""

    LOCAL = "local"
    """The client hands it out again by itself, as JMS clients of AMQP 1.0 do; the broker is told nothing."""
    BROKER = "broker"
    """It goes back as failed deliveries (modified, delivery-failed), as after a rollback: the queue's
    redelivery delay and limit apply, and another consumer may get it."""


@dataclass(frozen=True, kw_only=True)
class RedeliveryPolicy:
    """What a consumer does about messages that fail: before it hands one out that came before, and when its
    listener raises."""

    max_redeliveries: int = NO_LIMIT
    """A message with more failed attempts is not handed out; 0: none that failed before; −1: no limit."""
    outcome: RedeliveryOutcome = RedeliveryOutcome.MODIFIED_FAILED_UNDELIVERABLE
    """What the broker is told of it instead; ValueError for a number that is none."""
    listener_failure: RedeliveryOutcome = RedeliveryOutcome.MODIFIED_FAILED
    """What the broker is told, in the modes AUTO and DUPS_OK, of a message whose listener has raised: by
    default that the attempt has failed, so that the queue's redelivery delay and limit apply. Qpid JMS
    releases it, to come again for ever."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "outcome", RedeliveryOutcome(self.outcome))
        object.__setattr__(self, "listener_failure", RedeliveryOutcome(self.listener_failure))

    def is_exceeded(self, redelivery_count: int) -> bool:
        """Whether a message with so many failed attempts is not to be handed out."""
        return 0 <= self.max_redeliveries < redelivery_count


@dataclass(frozen=True, kw_only=True)
class PrefetchPolicy:
    """How many messages a consumer asks for ahead, by what it consumes from: 0 to 32 767; 0: each ``receive``
    asks for one. Raises ValueError for another number.
    """

    queue: int = DEFAULT_PREFETCH
    topic: int = DEFAULT_PREFETCH
    durable_topic: int = DEFAULT_PREFETCH
    browser: int = DEFAULT_PREFETCH

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value <= MAX_PREFETCH:
                raise ValueError(f"prefetch of {name} is {value}; it is 0 to {MAX_PREFETCH}")

    @classmethod
    def of_all(cls, prefetch: int) -> PrefetchPolicy:
        """The same for everything."""
        return cls(queue=prefetch, topic=prefetch, durable_topic=prefetch, browser=prefetch)


@dataclass(frozen=True, kw_only=True)
class PresettlePolicy:
    """What travels settled, at most once, without an outcome: lost when something breaks."""

    all: bool = False
    producers: bool = False
    queue_producers: bool = False
    topic_producers: bool = False
    transacted_producers: bool = False
    """Those of transacted sessions."""
    consumers: bool = False
    queue_consumers: bool = False
    topic_consumers: bool = False

    def producer(self, to_topic: bool | None, transacted: bool) -> bool:
        """Whether a producer sends settled; ``to_topic`` None: its messages name their destinations."""
        by_kind = self.topic_producers if to_topic else self.queue_producers
        of_kind = to_topic is not None and by_kind
        return self.all or self.producers or of_kind or (transacted and self.transacted_producers)

    def consumer(self, of_topic: bool, transacted: bool) -> bool:
        """Whether a consumer gets its messages settled; in a transaction never."""
        by_kind = self.topic_consumers if of_topic else self.queue_consumers
        return not transacted and (self.all or self.consumers or by_kind)


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """How the sessions, producers and consumers of a connection behave. Times in seconds; None: no limit.

    Raises ValueError for a negative time.
    """

    force_sync_send: bool = False
    """Every ``send`` waits for its outcome, those of non-persistent messages and in transactions, too."""
    force_async_send: bool = False
    """No ``send`` waits for its outcome, unless ``force_sync_send`` is set."""
    send_timeout_s: float | None = DEFAULT_TIMEOUT_S
    """For a ``send``: waiting for credit, and for the outcome."""
    close_timeout_s: float | None = DEFAULT_TIMEOUT_S
    """For the broker's answer to a ``close``."""
    drain_timeout_s: float | None = DEFAULT_TIMEOUT_S
    """For the broker to say that it has no message now."""
    local_message_expiry: bool = True
    """A message that has expired on the way is not handed to the application."""
    prefetch: PrefetchPolicy = field(default_factory=PrefetchPolicy)
    redelivery: RedeliveryPolicy = field(default_factory=RedeliveryPolicy)
    presettle: PresettlePolicy = field(default_factory=PresettlePolicy)
    recover: RecoverMode = RecoverMode.LOCAL
    """Who has ``Session.recover`` bring messages back, unless the session says otherwise; ValueError for a
    text that is none."""
    tracing: MessageTracing | None = None
    """An instrumentation around sends, receives and listeners: `OpenTelemetryTracing` of
    :mod:`postroom.client.tracing`; None: nothing is traced."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "recover", read_recover(self.recover))
        for name in ("send_timeout_s", "close_timeout_s", "drain_timeout_s"):
            check_duration(name, getattr(self, name))

    def with_url_options(self, url_options: Mapping[str, str]) -> ClientOptions:
        """These options, and what a URL says, by the names in :data:`URL_OPTIONS`.

        Raises ValueError that names the option that is unknown, or whose value is none.
        """
        options = self
        for name, text in url_options.items():
            if name not in URL_OPTIONS:
                raise ValueError(f"option {name} of the broker's URL is not known")
            path, read = URL_OPTIONS[name]
            options = _with(options, path, read_option(name, text, read))
        return options


@dataclass(frozen=True, kw_only=True)
class FactoryOptions:
    """The arguments of a connection factory that a URL may say instead."""

    client_id: str | None
    """The application's own, that no other connection may have."""
    connect_timeout_s: float | None
    request_timeout_s: float | None
    idle_timeout_ms: int
    max_frame_size_bytes: int
    sasl_mechanisms: tuple[str, ...] = ()
    """How to sign in, best first; empty: as it fits to what is known of the user."""

    def __post_init__(self) -> None:
        for name in ("connect_timeout_s", "request_timeout_s"):
            check_duration(name, getattr(self, name))
        if self.idle_timeout_ms < 0:
            raise ValueError(f"idle_timeout_ms is {self.idle_timeout_ms}; it is 0 (never) or more")
        if not MIN_FRAME_SIZE_BYTES <= self.max_frame_size_bytes <= MAX_UINT:
            size = self.max_frame_size_bytes
            raise ValueError(f"max_frame_size_bytes is {size}; it is {MIN_FRAME_SIZE_BYTES} to {MAX_UINT}")

    def with_url_options(self, url_options: Mapping[str, str]) -> FactoryOptions:
        """These, and what a URL says; ValueError names the option whose value is none."""
        change: dict[str, Any] = {}
        for name, text in url_options.items():
            field_name, read = FACTORY_URL_OPTIONS[name]
            change[field_name] = read_option(name, text, read)
        return replace(self, **change)


def split_url_options(url: ParsedUrl) -> tuple[dict[str, str], dict[str, str]]:
    """The options of a URL: those of the factory, and the others. Those of single brokers count, too, if all
    have the same; ValueError otherwise.
    """
    nested = url.brokers[0].options
    if any(broker.options != nested for broker in url.brokers):
        raise ValueError(
            "the brokers of the URL have options of their own that differ: write them once, behind the list"
        )
    options = nested | url.options
    own = {name: text for name, text in options.items() if name in FACTORY_URL_OPTIONS}
    return own, {name: text for name, text in options.items() if name not in own}


Reader = Callable[[str], object]


def read_option(name: str, text: str, read: Reader) -> object:
    """The value of an option; ValueError that names it."""
    try:
        return read(text)
    except ValueError as error:
        raise ValueError(f"option {name} of the broker's URL: {error}") from None


def read_flag(text: str) -> bool:
    """``true`` or ``false``."""
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def read_mechanisms(text: str) -> tuple[str, ...]:
    """EXTERNAL and some of `USER_MECHANISMS`, or those of tokens, with commas between them, best first."""
    named, known = tuple(text.upper().split(",")), (EXTERNAL, *USER_MECHANISMS)
    if not (set(named) <= set(known) or set(named) <= set(TOKEN_MECHANISMS)):
        tokens = f"or, with a token as password, {', '.join(TOKEN_MECHANISMS)}"
        raise ValueError(f"{text!r} has others than {', '.join(known)}, {tokens}")
    return named


def read_seconds(text: str) -> float | None:
    """Milliseconds as seconds; −1: no limit."""
    milliseconds = int(text)
    return None if milliseconds < 0 else milliseconds / MS_A_SECOND


def _outcome(text: str) -> RedeliveryOutcome:
    by_name = {outcome.name: outcome for outcome in RedeliveryOutcome}
    return by_name[text.upper()] if text.upper() in by_name else RedeliveryOutcome(int(text))


def read_recover(text: str) -> RecoverMode:
    """``local`` or ``broker``."""
    try:
        return RecoverMode(text)
    except ValueError:
        raise ValueError(f"recover is {text!r}; it is {' or '.join(RecoverMode)}") from None


URL_OPTIONS: Final[dict[str, tuple[str, Reader]]] = {
    "jms.forceSyncSend": ("force_sync_send", read_flag),
    "jms.forceAsyncSend": ("force_async_send", read_flag),
    "jms.sendTimeout": ("send_timeout_s", read_seconds),
    "jms.closeTimeout": ("close_timeout_s", read_seconds),
    "amqp.drainTimeout": ("drain_timeout_s", read_seconds),
    "jms.localMessageExpiry": ("local_message_expiry", read_flag),
    "jms.recover": ("recover", read_recover),
    "jms.prefetchPolicy.all": ("prefetch", lambda text: PrefetchPolicy.of_all(int(text))),
    "jms.prefetchPolicy.queuePrefetch": ("prefetch.queue", int),
    "jms.prefetchPolicy.topicPrefetch": ("prefetch.topic", int),
    "jms.prefetchPolicy.durableTopicPrefetch": ("prefetch.durable_topic", int),
    "jms.prefetchPolicy.queueBrowserPrefetch": ("prefetch.browser", int),
    "jms.redeliveryPolicy.maxRedeliveries": ("redelivery.max_redeliveries", int),
    "jms.redeliveryPolicy.outcome": ("redelivery.outcome", _outcome),
    "jms.redeliveryPolicy.listenerFailure": ("redelivery.listener_failure", _outcome),
    "jms.presettlePolicy.presettleAll": ("presettle.all", read_flag),
    "jms.presettlePolicy.presettleProducers": ("presettle.producers", read_flag),
    "jms.presettlePolicy.presettleQueueProducers": ("presettle.queue_producers", read_flag),
    "jms.presettlePolicy.presettleTopicProducers": ("presettle.topic_producers", read_flag),
    "jms.presettlePolicy.presettleTransactedProducers": ("presettle.transacted_producers", read_flag),
    "jms.presettlePolicy.presettleConsumers": ("presettle.consumers", read_flag),
    "jms.presettlePolicy.presettleQueueConsumers": ("presettle.queue_consumers", read_flag),
    "jms.presettlePolicy.presettleTopicConsumers": ("presettle.topic_consumers", read_flag),
}
"""Name in the URL → field, and how its text is read."""

FACTORY_URL_OPTIONS: Final[dict[str, tuple[str, Reader]]] = {
    "jms.clientID": ("client_id", str),
    "jms.connectTimeout": ("connect_timeout_s", read_seconds),
    "jms.requestTimeout": ("request_timeout_s", read_seconds),
    "amqp.idleTimeout": ("idle_timeout_ms", int),
    "amqp.maxFrameSize": ("max_frame_size_bytes", int),
    "amqp.saslMechanisms": ("sasl_mechanisms", read_mechanisms),
}
"""The same for the arguments of a connection factory."""


def _with(options: ClientOptions, path: str, value: object) -> ClientOptions:
    change: dict[str, Any] = {path: value}
    if "." in path:
        policy, name = path.split(".")
        change = {policy: replace(getattr(options, policy), **{name: value})}
    return replace(options, **change)

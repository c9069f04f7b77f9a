"""All of tracing for one broker, from its configuration."""

from collections.abc import Callable
from typing import Final

from postroom import __version__
from postroom.ledger.ledger import Ledger
from postroom.manager.kernel.trace_contexts import TraceContexts
from postroom.manager.manager import QueueManager
from postroom.server.configuration.config import Config
from postroom.server.configuration.tracing import TracingConfig
from postroom.server.exits import Exit, StartError
from postroom.server.threads import TendedThread
from postroom.server.tracing.follower import TraceFollower
from postroom.server.tracing.lives import Lives
from postroom.server.tracing.span_queue import SpanExporter, SpanQueue


class Tracer:
    """Makes spans for one broker, from `start` to `stop`."""

    def __init__(self, config: TracingConfig, full: Config, ledger: Ledger, exporter: SpanExporter) -> None:
        self.contexts: Final = TraceContexts(config.ratio, config.max_messages)
        self.queue: Final = SpanQueue(exporter, config.max_spans, config.batch_spans)
        self._lives: Final = Lives(ledger.ledger_id.bytes, config.max_messages)
        self.follower: Final = TraceFollower(
            full.data_folder,
            ledger.ledger_id.bytes,
            self.contexts,
            self._lives,
            self.queue,
            lambda: ledger.durable_through,
            ledger.read_bodies,
            config.interval_s,
        )

    @property
    def threads(self) -> list[TendedThread]:
        """What works for it beside the broker."""
        return [self.queue.thread, self.follower.thread]

    @property
    def messages(self) -> int:
        """Traced messages that are alive."""
        return len(self._lives.messages)

    @property
    def messages_dropped(self) -> int:
        """Sampled messages that weren't traced."""
        return int(self.contexts.dropped) + self._lives.dropped

    def start(self, manager: QueueManager) -> None:
        """From now on contexts are noted."""
        self.queue.start()
        self.follower.start()
        manager.core.trace_contexts = self.contexts

    def stop(self) -> None:
        """Send what has happened; in the end nothing of it runs."""
        self.follower.stop()
        self.queue.stop()


ExporterOf = Callable[[TracingConfig, dict[str, str]], SpanExporter]


def make_tracer(config: Config, ledger: Ledger, exporter_of: ExporterOf | None = None) -> Tracer | None:
    """None: the configuration has no table for it. Raises `StartError`."""
    if config.tracing is None:
        return None
    resource = {
        "service.name": config.tracing.service_name,
        "service.instance.id": config.container_id,
        "service.version": __version__,
        "postroom.ledger.id": str(ledger.ledger_id),
    }
    make = exporter_of or _otlp()
    return Tracer(config.tracing, config, ledger, make(config.tracing, resource))


def _otlp() -> ExporterOf:
    try:
        # Imported here: who doesn't trace starts sooner, and needs no library for it.
        from postroom.server.tracing.otlp_exporter import OtlpExporter
    except ImportError as error:
        what = f"[tracing] needs a library that isn't here ({error.name}): pip install 'postroom[otel]'"
        raise StartError(Exit.CONFIGURATION, what) from error
    return OtlpExporter

"""What is served, put together: the parts, and what they share."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry

from postroom.ledger.ledger import Ledger
from postroom.server.configuration.config import Config
from postroom.server.configuration.http import HttpConfig
from postroom.server.connection.broker import Broker
from postroom.server.http.admission import Admission
from postroom.server.http.api.routes import ApiRoutes
from postroom.server.http.callers import Callers
from postroom.server.http.figures import Figures
from postroom.server.http.gateway import ManagementGateway
from postroom.server.http.health import GetReport
from postroom.server.http.ledger_routes import LedgerRoutes
from postroom.server.http.ledger_view import LedgerView
from postroom.server.http.monitoring.broker_metrics import BrokerCollector
from postroom.server.http.monitoring.health_routes import HealthRoutes
from postroom.server.http.monitoring.metrics_routes import MetricsRoutes
from postroom.server.http.monitoring.queue_ages import QueueAges
from postroom.server.http.monitoring.trace_metrics import TraceCollector
from postroom.server.http.requesters import Requesters
from postroom.server.http.route_group import RouteGroup, Shared
from postroom.server.http.sign_in import HttpSignIn
from postroom.server.http.tokens import Tokens, tokens_file
from postroom.server.http.waits import Waits
from postroom.server.listening.listeners import Listener
from postroom.server.tracing.tracer import Tracer


def shared_parts(
    config: Config,
    http: HttpConfig,
    broker: Broker,
    ledger: Ledger,
    listeners: list[Listener],
    command: Callable[[Callable[[int], object]], None],
    report: GetReport,
    tracer: Tracer | None,
) -> Shared:
    """What the parts share. ``command`` has the broker's own thread do something with the time; ``report``:
    how the process is."""
    registry = CollectorRegistry()
    ages = QueueAges(broker, config.data_folder, command)
    registry.register(BrokerCollector(broker, ledger, listeners, ages))
    if tracer is not None:
        registry.register(TraceCollector(tracer))
    file = tokens_file(http, config.data_folder)
    admission = Admission(http, Callers(Tokens(file), broker.access, command))
    return Shared(
        config=http,
        admission=admission,
        requesters=Requesters(http, admission, broker.access, HttpSignIn(broker, command, http)),
        gateway=ManagementGateway(broker, command, http),
        waits=Waits(http.max_streams),
        ledger_view=LedgerView(config.data_folder, lambda: ledger.durable_through),
        registry=registry,
        figures=Figures(broker),
        report=report,
        data_folder=config.data_folder,
        tokens_file=file,
    )


def route_groups(shared: Shared) -> list[RouteGroup]:
    """All parts; the first whose prefix a path has answers it."""
    return [LedgerRoutes(shared), MetricsRoutes(shared), HealthRoutes(shared), ApiRoutes(shared)]

"""Every query of the dashboard and of the alert rules asks for what a broker shows."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import promql_parser as promql
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from proton import Message
from proton.utils import BlockingConnection
from tools.dashboard import FILE, RATE, ROWS, dashboard, written

from postroom.cli.main import main
from postroom.manager.kernel.statistics import SLOT_NAMES
from postroom.model.channel_states import ChannelState
from postroom.model.codes import Outcome
from postroom.replication.lag import Lag
from postroom.replication.log import MemberNote
from postroom.server.alarms import CURES
from postroom.server.clock import wall_us
from postroom.server.configuration.channels import ChannelConfig
from postroom.server.configuration.config import QueueConfig
from postroom.server.configuration.http import HttpConfig
from postroom.server.configuration.limits import UserLimitConfig
from postroom.server.configuration.listening import ListenConfig
from postroom.server.configuration.tracing import TracingConfig
from postroom.server.connection.broker import Broker
from tests.authority import Authority, Issued
from tests.server.harness import BrokerThread, make_config
from tests.server.http_client import get

pytestmark = pytest.mark.sockets

DEPLOY = Path(__file__).parents[3] / "deploy"
TARGET = {"job", "instance"}
"""Labels that Prometheus gives a sample by where it comes from."""
OF_PROMETHEUS = {"up": TARGET}
VALUES = {
    "state": {*SLOT_NAMES, *(state.name.lower() for state in ChannelState)},
    "outcome": {outcome.name.lower() for outcome in Outcome},
    "name": set(CURES),
}
"""What labels say that are matched by their values."""
COMMAND = re.compile(r"`postroom ([a-z -]+)")
TIMEOUT_S = 20.0

Shown = dict[str, set[str]]
"""The names of samples, and their labels."""


@pytest.fixture(scope="module")
def shown(authority: Authority, server: Issued, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """What a broker shows of which everything is used that is counted."""
    folder = tmp_path_factory.mktemp("dashboards")
    tls = ListenConfig(
        address="127.0.0.1:0",
        tls_certificate=str(server.certificate),
        tls_key=str(server.key),
        tls_client_ca=str(authority.certificate),
        tls_revocation_list=str(authority.revoke(folder / "crl.pem", authority.issue("eve"))),
    )
    config = make_config(
        listen=[ListenConfig(address="127.0.0.1:0"), tls],
        queue=[
            QueueConfig(name="orders", dead_letter_queue="dead"),
            QueueConfig(name="dead"),
            QueueConfig(name="B", usage="transmission"),
        ],
        channel=[
            ChannelConfig(name="A.B", type="sender", transmission_queue="B", connection="amqp://127.0.0.1:1")
        ],
        user_limit=[UserLimitConfig(user="*", max_links=100)],
        http=HttpConfig(address="127.0.0.1:0"),
        tracing=TracingConfig(endpoint="http://127.0.0.1:1/v1/traces"),
    )
    with BrokerThread(config) as broker:
        use(broker)
        broker.call(pretend)
        text = wait_for_http(broker)
        yield {
            sample.name: {*TARGET, *sample.labels}
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


def use(broker: BrokerThread) -> None:
    """Messages that are taken, rejected and left."""
    connection = BlockingConnection(broker.url, timeout=15)
    sender = connection.create_sender("orders")
    for body in ("one", "two"):
        sender.send(Message(body=body, durable=True))
    receiver = connection.create_receiver("orders", credit=1)
    receiver.receive(15)
    receiver.reject()
    receiver.close()
    connection.close()
    broker.wait_until(lambda b: b.manager.queues["dead"].statistics.depth == 1)


def pretend(broker: Broker) -> None:
    """Alarms, and members elsewhere: what a test can't have happen here."""
    for name in CURES:
        broker.alarms.begin(name, "a test", wall_us())
    note = MemberNote("b", "follower", 1, 1, wall_us())
    broker.members.notes = lambda: [note]
    broker.members.lag = lambda _: Lag(1, 2, 3.0)


def wait_for_http(broker: BrokerThread) -> str:
    """The metrics, when they tell of a scrape before them."""
    end_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end_s:
        text = get(broker.http_urls[0], "/metrics").body.decode()
        if "postroom_http_request_seconds_bucket{" in text:
            return text
    raise AssertionError("no scrape is counted")


@dataclass
class Query:
    """What one query asks for."""

    selectors: list[tuple[str, list[Any]]] = field(default_factory=list)
    grouped: set[str] = field(default_factory=set)


def parsed(query: str) -> Query:
    """Raises ValueError for one that is none."""
    found = Query()
    _walk(promql.parse(query.replace(RATE, "5m").replace("$instance", ".*").replace("$queue", ".*")), found)
    return found


def _walk(node: Any, found: Query) -> None:
    if isinstance(node, promql.VectorSelector):
        found.selectors.append((node.name, node.matchers.matchers))
    if isinstance(node, promql.AggregateExpr | promql.BinaryExpr) and node.modifier is not None:
        found.grouped |= set(re.findall(r"\w+", " ".join(re.findall(r"\(([^)]*)\)", str(node.modifier)))))
    children = [getattr(node, name, None) for name in ("lhs", "rhs", "expr", "vector_selector")]
    for child in [*children, *(getattr(node, "args", None) or [])]:
        if child is not None:
            _walk(child, found)


def check(query: str, shown: Shown) -> set[str]:
    """That a broker shows what the query asks for; the labels of its samples."""
    found = parsed(query)
    assert found.selectors, query
    labels: set[str] = set()
    for name, matchers in found.selectors:
        known = OF_PROMETHEUS.get(name) or shown.get(name)
        assert known is not None, f"no broker shows {name}: {query}"
        for matcher in matchers:
            assert matcher.name in known, f"{name} has no label {matcher.name}: {query}"
            if matcher.name in VALUES:
                for value in matcher.value.split("|"):
                    assert value in VALUES[matcher.name], f"{matcher.name} is never {value}: {query}"
        labels |= known
    assert found.grouped <= labels, query
    return labels


def queries_of_dashboard() -> list[tuple[str, str]]:
    """(Query, legend) of each line."""
    panels = json.loads(FILE.read_text())["panels"]
    return [
        (target["expr"], target["legendFormat"]) for panel in panels for target in panel.get("targets", [])
    ]


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


@pytest.mark.parametrize(("query", "legend"), queries_of_dashboard())
def test_a_query_of_the_dashboard(query: str, legend: str, shown: Shown) -> None:
    assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= check(query, shown)


@pytest.mark.parametrize(
    "variable", dashboard()["templating"]["list"][1:], ids=lambda each: str(each["name"])
)
def test_a_variable_of_the_dashboard(variable: dict[str, Any], shown: Shown) -> None:
    found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"])
    assert found is not None and found[2] in check(found[1], shown)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_an_alert_rule(rule: dict[str, Any], shown: Shown) -> None:
    labels = check(rule["expr"], shown)
    texts = " ".join(rule["annotations"].values())
    assert set(re.findall(r"\$labels\.(\w+)", texts)) <= labels
    for words in COMMAND.findall(texts):
        command: click.Command = main
        for word in words.split():
            assert isinstance(command, click.Group), f"postroom {words}"
            following = command.get_command(click.Context(command), word)
            assert following is not None, f"there is no postroom {words}"
            command = following


def test_the_check_finds_what_is_wrong(shown: Shown) -> None:
    for query in (
        "postroom_no_such_metric",
        'postroom_connections{queue="a"}',
        'postroom_queue_messages{state="no_such_state"}',
        "sum by (channel) (postroom_queue_messages)",
    ):
        with pytest.raises(AssertionError):
            check(query, shown)
    with pytest.raises(ValueError):
        check("sum(", shown)


def test_every_alarm_has_a_rule() -> None:
    text = " ".join(rule["expr"] for rule in rules())
    assert set(re.findall(r'postroom_alarm_since_seconds\{name="([a-z-]+)"\}', text)) == set(CURES)
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)


def test_every_metric_is_in_the_reference_and_most_are_on_the_dashboard(shown: Shown) -> None:
    reference = (DEPLOY.parent / "docs" / "reference" / "http.md").read_text()
    names = [name for name in shown if name.startswith("postroom_") and not name.endswith("_created")]
    own = {re.sub(r"_(bucket|count|sum)$", "", name) for name in names}
    assert [name for name in sorted(own) if f"`{name}`" not in reference] == []
    queries = " ".join(query for query, _ in [*queries_of_dashboard()])
    queries += " ".join(variable["query"] for variable in dashboard()["templating"]["list"])
    left_out = {name for name in own if name not in queries}
    assert left_out == {
        "postroom_channel_state_since_seconds",
        "postroom_http_requests_in_work",
        "postroom_ledger_epoch",
        "postroom_member_behind_bytes",
        "postroom_member_position",
        "postroom_queues_untold",
        "postroom_sink_bytes",
        "postroom_spark_bytes",
        "postroom_trace_behind_records",
        "postroom_trace_messages_dropped_total",
    }


def test_the_dashboard_is_what_its_table_says() -> None:
    assert FILE.read_text() == written(), "python -m tools.dashboard"
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    titles = [panel.title for row in ROWS.values() for panel in row]
    assert max(x for x, _ in taken) < 24 and len(titles) > 25


def test_the_scrape_example_holds_together() -> None:
    scrape = yaml.safe_load((DEPLOY / "prometheus" / "scrape.yaml").read_text())
    assert [(DEPLOY / "prometheus" / file).exists() for file in scrape["rule_files"]] == [True]
    (job,) = scrape["scrape_configs"]
    assert job["static_configs"][0]["targets"] == [HttpConfig().address]
    assert any(f'job="{job["job_name"]}"' in rule["expr"] for rule in rules())

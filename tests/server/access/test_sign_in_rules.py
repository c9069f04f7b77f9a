"""Rules of who signs in how from where."""

import json
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import ValidationError, convert
from proton import ConnectionException
from proton.utils import BlockingConnection

from postroom.client import ConnectionFactory, JMSSecurityException
from postroom.ledger.reading.acts import read_acts
from postroom.manager.security.principal_definition import ROLE, USER, PrincipalDefinition
from postroom.manager.security.principals import Principals
from postroom.server.access.sign_in_policy import Arrival, ClientCertificate, SignInPolicy
from postroom.server.configuration.config import Config
from postroom.server.configuration.listening import ListenConfig
from postroom.server.configuration.passwords import MIN_ITERATIONS, SCRAM_MECHANISMS, hash_password
from postroom.server.configuration.roles import RoleConfig
from postroom.server.configuration.sign_in import SignInRuleConfig
from tests.server.harness import BrokerThread, make_config
from tests.server.peers import OPENING, RawPeer

sockets = pytest.mark.sockets
PASSWORD = hash_password("sesame", iterations=MIN_ITERATIONS)
USERS = ("ann", "bob", "eve", "anonymous")
LISTEN = ("127.0.0.1:5672", "0.0.0.0:5671")
MECHANISMS = ("EXTERNAL", "SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "ANONYMOUS")
RANGES = ("10.0.0.0/8", "10.1.0.0/16", "192.0.2.7", "fd00::/8", "0.0.0.0/0", "::/0")
REMOTES = ("10.1.2.3", "10.9.9.9", "192.0.2.7", "fd00::1", "2001:db8::1")


def principals() -> Principals:
    """ann is a teller, and by that of the staff; bob is of the staff."""
    made = Principals()
    users = [PrincipalDefinition(name, USER) for name in ("ann", "bob", "eve")]
    roles = [PrincipalDefinition(name, ROLE) for name in ("staff", "tellers")]
    made.configure([*users, *roles], {"staff": ["tellers", "bob"], "tellers": ["ann"]})
    return made


def policy(*rules: SignInRuleConfig) -> SignInPolicy:
    made = SignInPolicy(principals())
    made.configure(Config(listen=[ListenConfig(each) for each in LISTEN], sign_in_rule=list(rules)))
    return made


def rule(**table: Any) -> SignInRuleConfig:
    return convert(table, SignInRuleConfig)


MEMBERS = {"role:staff": {"ann", "bob"}, "role:tellers": {"ann"}}
rules = st.builds(
    lambda ranges, listen, users, mechanisms: rule(
        **{"from": ranges, "listen": listen, "users": users, "mechanisms": mechanisms}
    ),
    st.lists(st.sampled_from(RANGES), max_size=2),
    st.lists(st.sampled_from(LISTEN), max_size=1),
    st.lists(st.sampled_from((*USERS, *MEMBERS)), max_size=2),
    st.lists(st.sampled_from(MECHANISMS), max_size=3),
)
arrivals = st.builds(
    lambda remote, listen: Arrival(f"{remote}:40000", listen),
    st.sampled_from(REMOTES),
    st.sampled_from(LISTEN),
)


def lets_in(all_rules: list[SignInRuleConfig], arrival: Arrival, user: str, mechanism: str) -> bool:
    """What the reference says, the long way."""
    host = ip_address(arrival.remote.rpartition(":")[0])
    for each in all_rules:
        here = not each.ranges or any(host in ip_network(text) for text in each.ranges)
        there = not each.listen or arrival.listen in each.listen
        named = {name for text in each.users for name in MEMBERS.get(text, {text})}
        if here and there and (not each.users or user in named):
            return mechanism in each.mechanisms
    return not all_rules


@given(st.lists(rules, max_size=4), arrivals, st.sampled_from(USERS), st.sampled_from(MECHANISMS))
def test_the_first_rule_that_speaks_of_a_sign_in_counts(
    all_rules: list[SignInRuleConfig], arrival: Arrival, user: str, mechanism: str
) -> None:
    refusal = policy(*all_rules).refusal(arrival, user, mechanism)
    assert (not refusal) == lets_in(all_rules, arrival, user, mechanism)


@given(st.lists(rules, min_size=1, max_size=4), arrivals)
def test_what_could_let_somebody_in_is_offered(all_rules: list[SignInRuleConfig], arrival: Arrival) -> None:
    shown = Arrival(arrival.remote, arrival.listen, ClientCertificate("CN=x"))
    offered = policy(*all_rules).offered(shown, list(MECHANISMS))
    could = {
        mechanism
        for mechanism in MECHANISMS
        for user in USERS
        if lets_in(all_rules, shown, user, mechanism) and (mechanism == "ANONYMOUS") == (user == "anonymous")
    }
    assert could <= set(offered)
    assert [each for each in MECHANISMS if each in offered] == offered, "in the listener's order"


def test_a_mechanism_that_no_rule_allows_there_is_not_offered() -> None:
    inside = rule(**{"from": ["10.0.0.0/8"], "mechanisms": ["PLAIN", "ANONYMOUS"]})
    made = policy(inside, rule(mechanisms=["SCRAM-SHA-256"]))
    usual = list(MECHANISMS[1:])
    assert made.offered(Arrival("10.0.0.1:1", LISTEN[0]), usual) == ["PLAIN", "ANONYMOUS"]
    assert made.offered(Arrival("192.0.2.1:1", LISTEN[0]), usual) == ["SCRAM-SHA-256"]
    closed = policy(rule(mechanisms=[]))
    assert closed.offered(Arrival("10.0.0.1:1", LISTEN[0]), usual) == usual, "who is refused sees no reason"
    assert closed.refusal(Arrival("10.0.0.1:1", LISTEN[0]), "anonymous", "ANONYMOUS")


def test_addresses_of_other_forms() -> None:
    made = policy(rule(**{"from": ["10.0.0.0/8", "::1"], "mechanisms": ["PLAIN"]}))
    for remote, refused in (
        ("::ffff:10.0.0.1:5", False),
        ("[::1]:5", False),
        ("somebody", True),
        ("?", True),
    ):
        assert bool(made.refusal(Arrival(remote, LISTEN[0]), "ann", "PLAIN")) == refused, remote


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ({"from": ["10.0.0.1/8"], "mechanisms": []}, "no range of addresses"),
        ({"from": ["here"], "mechanisms": []}, "no range of addresses"),
        ({"listen": ["127.0.0.1:9"], "mechanisms": []}, r"the address of no \[\[listen\]\]"),
        ({"mechanisms": ["GUESS"]}, "Invalid enum value"),
        ({}, "mechanisms"),
    ],
)
def test_rules_that_cant_be(table: dict[str, Any], what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        convert({"sign_in_rule": [table]}, Config)


# With sockets: every client comes from 127.0.0.1.

HERE = "127.0.0.1:0"
ELSEWHERE = rule(**{"from": ["192.0.2.0/24"], "mechanisms": list(MECHANISMS)})


def broker_with(*table: SignInRuleConfig, folder: Path | None = None) -> BrokerThread:
    users = {
        "ann": [hash_password("sesame", each, iterations=MIN_ITERATIONS) for each in SCRAM_MECHANISMS],
        "bob": [hash_password("sesame", each, iterations=MIN_ITERATIONS) for each in SCRAM_MECHANISMS],
    }
    roles = [
        RoleConfig(name="administrator", members=["ann", "bob", "anonymous"]),
        RoleConfig(name="tellers", members=["ann"]),
    ]
    changes = {"users": users, "role": roles, "sign_in_rule": list(table)}
    return BrokerThread(make_config(listen=[ListenConfig(HERE)], **changes), folder=folder)


@pytest.fixture
def closed() -> Iterator[BrokerThread]:
    with broker_with(ELSEWHERE) as running:
        yield running


def signed_in(broker: BrokerThread, user: str, mechanism: str = "PLAIN") -> BlockingConnection:
    who = {} if user == "anonymous" else {"user": user, "password": "sesame"}
    return BlockingConnection(broker.url, timeout=15, allowed_mechs=mechanism, **who)


@sockets
@pytest.mark.parametrize(("user", "mechanism"), [("ann", "PLAIN"), ("anonymous", "ANONYMOUS")])
def test_nobody_gets_in_by_an_address_that_no_rule_has(
    closed: BrokerThread, user: str, mechanism: str
) -> None:
    with pytest.raises(ConnectionException, match="unauthorized"):
        signed_in(closed, user, mechanism)


@sockets
def test_nobody_gets_around_the_rules_without_sasl(closed: BrokerThread) -> None:
    answer = RawPeer(closed.port).send(OPENING).read_to_the_end()
    assert answer[:8] == b"AMQP\x03\x01\x00\x00"


@sockets
def test_users_and_roles_by_mechanism(tmp_path: Path) -> None:
    tellers = rule(users=["role:tellers"], mechanisms=["PLAIN"])
    anonymous = rule(users=["anonymous"], mechanisms=["ANONYMOUS"], listen=[HERE])
    with broker_with(tellers, anonymous, folder=tmp_path) as broker:
        signed_in(broker, "ann").close()
        signed_in(broker, "anonymous", "ANONYMOUS").close()
        for user in ("bob", "eve"):
            with pytest.raises(ConnectionException) as refused:
                signed_in(broker, user)
            assert "unauthorized" in str(refused.value), "one answer to all"
    acts = list(read_acts(tmp_path))
    assert {(act["user"], act["description"]) for act in acts} == {
        ("bob", "by PLAIN: no sign-in rule is for it"),
        ("eve", "by PLAIN"),
    }
    assert "sesame" not in json.dumps(acts, default=str)


@sockets
def test_scram_is_refused_at_its_end_as_a_wrong_password_is() -> None:
    nobody = rule(users=["ann"], mechanisms=[])
    with broker_with(nobody, rule(mechanisms=["SCRAM-SHA-512"])) as broker:
        texts = []
        for who in ("ann:sesame", "bob:wrong"):
            with pytest.raises(JMSSecurityException) as refused:
                ConnectionFactory(broker.url.replace("://", f"://{who}@")).create_context()
            texts.append(str(refused.value))
        assert texts[0] == texts[1]
        ConnectionFactory(broker.url.replace("://", "://bob:sesame@")).create_context().close()

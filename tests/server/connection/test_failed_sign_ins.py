"""Failed sign-ins are slowed down: by a clock that the test moves, and over sockets."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter
from proton.utils import BlockingConnection

from postroom.amqp.frames.frames import SASL_HEADER, write_sasl_frame
from postroom.amqp.frames.sasl import (
    SASL_AUTH,
    SASL_SYS_TEMP,
    SaslInit,
    SaslOutcome,
    SaslResponse,
    plain_response,
)
from postroom.server.configuration.config import Config, LimitsConfig, ListenConfig
from postroom.server.configuration.passwords import MIN_ITERATIONS, hash_password
from postroom.server.configuration.sign_in import SignInConfig
from postroom.server.connection import failed_sign_ins
from postroom.server.connection.failed_sign_ins import FailedSignIns, key_of
from tests.server.harness import BrokerThread, make_config
from tests.server.peers import RawPeer

S = 1_000_000
OPEN_TIMEOUT_MS = 10_000


class World:
    """Failed sign-ins with a clock; what has been answered, and after how many ms."""

    def __init__(self, **settings: int) -> None:
        self.failures = FailedSignIns(SignInConfig(**settings), OPEN_TIMEOUT_MS)
        self.now_us = S
        self.answered: list[tuple[str, int]] = []

    def fail(self, remote: str = "a:1", user: str = "ann", name: str = "") -> None:
        began_us = self.now_us

        def refuse(now_us: int) -> None:
            self.answered.append((name or user, (now_us - began_us) // 1000))

        self.failures.add(remote, user, refuse, self.now_us)

    def advance(self, ms: int) -> None:
        """To then, by way of everything that is due."""
        end_us = self.now_us + ms * 1000
        while 0 < self.failures.next_deadline_us() <= end_us:
            self.now_us = self.failures.next_deadline_us()
            self.failures.on_time(self.now_us)
        self.now_us = end_us

    def delays(self, *remotes_and_users: tuple[str, str]) -> list[int]:
        """How late the answers to these failures come, in ms, one after the other."""
        for remote, user in remotes_and_users:
            self.fail(remote, user)
            self.advance(OPEN_TIMEOUT_MS)
        return [delay for _, delay in self.answered]


def test_each_failure_doubles_the_delay_up_to_a_bound() -> None:
    assert World().delays(*[("a:1", "ann")] * 7) == [0, 250, 500, 1000, 2000, 4000, 4000]


def test_the_delay_ends_before_the_connection_does() -> None:
    assert World(max_failure_delay_ms=60_000).delays(*[("a:1", "ann")] * 9)[-1] == OPEN_TIMEOUT_MS // 2


def test_without_a_delay_none_waits() -> None:
    assert World(failure_delay_ms=0).delays(*[("a:1", "ann")] * 4) == [0] * 4


def test_another_address_and_another_user_are_not_delayed() -> None:
    assert World().delays(("a:1", "ann"), ("a:2", "ann"), ("b:1", "ann"), ("a:3", "bob")) == [0, 250, 0, 0]


def test_an_address_that_tries_many_users_is_delayed() -> None:
    users = [("a:1", f"user-{number}") for number in range(5)]
    assert World(address_failures=3).delays(*users, ("b:1", "user-0")) == [0, 0, 0, 250, 500, 0]


def test_a_success_makes_the_users_failures_forgotten_and_not_those_of_the_address() -> None:
    world = World(address_failures=3)
    world.delays(*[("a:1", "ann")] * 2)
    world.failures.forget(key_of("a:7", "ann"))
    assert world.delays(("a:1", "ann"), ("a:1", "bob"))[2:] == [0, 250]


def test_failures_are_forgotten_after_a_while() -> None:
    world = World(failure_memory_s=60)
    world.delays(*[("a:1", "ann")] * 3)
    world.advance(60_000)
    assert world.delays(("a:1", "ann"))[3:] == [0]


def test_refusals_leave_when_they_are_due_whatever_came_first() -> None:
    world = World()
    for _ in range(3):
        world.fail("a:1", "eve")
    world.fail("b:1", "ann")
    world.fail("b:1", "ann", "later")
    world.advance(OPEN_TIMEOUT_MS)
    assert world.answered == [("eve", 0), ("ann", 0), ("eve", 250), ("later", 250), ("eve", 500)]
    assert world.failures.next_deadline_us() == 0


def test_many_connections_at_a_time_gain_nothing() -> None:
    world = World(waiting_per_user=2)
    for _ in range(3):
        world.fail()
    assert world.failures.crowded("a:9", "ann")
    assert not world.failures.crowded("a:9", "bob")
    assert not world.failures.crowded("b:9", "ann"), "the user may come from elsewhere"
    world.advance(OPEN_TIMEOUT_MS)
    assert not world.failures.crowded("a:9", "ann")


def test_one_address_has_few_refusals_waiting_for_all_its_users() -> None:
    world = World(waiting_per_address=2, waiting_per_user=1)
    for user in ("ann", "ann", "bob", "bob"):
        world.fail(user=user)
    assert world.failures.crowded("a:9", "new")
    assert not world.failures.crowded("b:9", "new")


def test_at_the_bound_of_all_the_next_goes_out_early() -> None:
    world = World(waiting=2)
    for remote in ("a:1", "b:1", "c:1"):
        world.fail(remote)
        world.fail(remote, name=remote)
    assert world.answered == [("ann", 0), ("ann", 0), ("ann", 0), ("a:1", 0)]
    assert world.failures.waiting == 2


def test_addresses_of_one_ipv6_network_are_one() -> None:
    assert key_of("2001:db8:1:2:3::4:5672", "ann") == key_of("2001:db8:1:2:ffff::1:99", "ann")
    assert key_of("2001:db8:1:2:3::4:5672", "ann") != key_of("2001:db8:1:3:3::4:5672", "ann")
    assert key_of("fe80::1%eth0:5672", "ann") == ("fe80::", "ann")
    assert key_of("10.0.0.1:5672", "ann") == ("10.0.0.1", "ann")


def test_new_bounds_hold_from_now_on() -> None:
    world = World()
    world.fail()
    world.failures.configure(SignInConfig(failure_delay_ms=10))
    assert world.delays(("a:1", "ann")) == [0, 10]


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.integers(0, 3000)), max_size=60),
    st.integers(1, 5),
)
def test_each_is_answered_once_in_time_and_the_bounds_hold(
    failures: list[tuple[str, str, int]], bound: int
) -> None:
    world = World(waiting=bound, waiting_per_user=1)
    for host, user, wait_ms in failures:
        world.fail(f"{host}:1", user)
        assert world.failures.waiting <= bound
        world.advance(wait_ms)
    world.advance(OPEN_TIMEOUT_MS)
    assert len(world.answered) == len(failures)
    assert all(0 <= delay <= 4000 for _, delay in world.answered)
    assert not any(world.failures.crowded(f"{host}:1", user) for host in "ab" for user in "xyz")


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_sign_ins, "MAX_REMEMBERED", 4)
    world = World()
    world.delays(*[(f"{host}:1", "ann") for host in "abc"])
    assert [world.failures.count(key_of(f"{host}:1", "ann")) for host in "abc"] == [0, 1, 1]


# Over sockets.

PASSWORDS = {"ann": (hash_password("sesame", iterations=MIN_ITERATIONS),)}
NEVER_MS = 50_000


def config(**settings: int) -> Config:
    return make_config(
        listen=[ListenConfig(address="127.0.0.1:0", anonymous=False)],
        users={name: list(kept) for name, kept in PASSWORDS.items()},
        limits=LimitsConfig(open_timeout_ms=2 * NEVER_MS),
        sign_in=SignInConfig(failure_delay_ms=NEVER_MS, max_failure_delay_ms=NEVER_MS, **settings),
    )


@pytest.fixture
def slow_broker() -> Iterator[BrokerThread]:
    """Whose second refusal doesn't come within the test."""
    with BrokerThread(config(waiting_per_user=2)) as running:
        yield running


def guess(broker: BrokerThread, user: str) -> RawPeer:
    writer = BytesWriter()
    writer.write(SASL_HEADER)
    write_sasl_frame(writer, SaslInit("PLAIN", plain_response(user, "wrong")))
    return RawPeer(broker.port).send(writer.getvalue())


def outcome(code: int) -> bytes:
    writer = BytesWriter()
    write_sasl_frame(writer, SaslOutcome(code))
    return writer.getvalue()


@pytest.mark.sockets
@pytest.mark.parametrize("user", ["ann", "nobody"])
def test_a_guess_waits_and_a_good_sign_in_does_not(slow_broker: BrokerThread, user: str) -> None:
    assert guess(slow_broker, user).read_to_the_end().endswith(outcome(SASL_AUTH)), "the first waits not"
    with ExitStack() as guesses:
        for _ in range(2):
            guesses.enter_context(closing(guess(slow_broker, user).socket))
        slow_broker.wait_until(lambda b: b.sign_ins.failures.waiting == 2)
        turned_away = guess(slow_broker, user).read_to_the_end()
        assert turned_away.endswith(outcome(SASL_SYS_TEMP)), "a third is not looked at"
        assert guess(slow_broker, "other").read_to_the_end().endswith(outcome(SASL_AUTH))
    slow_broker.wait_until(lambda b: not b.connections)
    assert slow_broker.call(lambda b: b.sign_ins.failures.waiting) == 2, "who hangs up gains nothing"
    slow_broker.turn(lambda b, now_us: b.sign_ins.failures.on_time(now_us + NEVER_MS * 1000))
    BlockingConnection(slow_broker.url, timeout=15, user="ann", password="sesame").close()


@pytest.mark.sockets
def test_good_sign_ins_of_the_same_user_from_the_same_address_are_not_delayed(
    slow_broker: BrokerThread,
) -> None:
    guess(slow_broker, "ann").read_to_the_end()
    with closing(guess(slow_broker, "ann").socket):
        slow_broker.wait_until(lambda b: b.sign_ins.failures.waiting == 1)
        BlockingConnection(slow_broker.url, timeout=15, user="ann", password="sesame").close()


@pytest.mark.sockets
def test_a_refusal_that_has_waited_is_sent(slow_broker: BrokerThread) -> None:
    guess(slow_broker, "ann").read_to_the_end()
    waiting = guess(slow_broker, "ann")
    slow_broker.wait_until(lambda b: b.sign_ins.failures.waiting == 1)
    slow_broker.turn(lambda b, now_us: b.on_time(now_us + NEVER_MS * 1000))
    assert waiting.read_to_the_end().endswith(outcome(SASL_AUTH))


@pytest.mark.sockets
def test_connections_that_were_challenged_before_are_not_checked_all_at_once(
    slow_broker: BrokerThread,
) -> None:
    first, last = BytesWriter(), BytesWriter()
    first.write(SASL_HEADER)
    write_sasl_frame(first, SaslInit("SCRAM-SHA-256", b"n,,n=ann,r=abc"))
    write_sasl_frame(last, SaslResponse(b"c=biws,r=abc,p=eHl6"))
    peers = [RawPeer(slow_broker.port).send(first.getvalue()) for _ in range(4)]
    for peer in peers:
        while b"r=abc" not in peer.received:
            peer.more()
    answers = [peers[0].send(last.getvalue()).read_to_the_end()]
    with ExitStack() as waiting:
        for peer in peers[1:3]:
            waiting.enter_context(closing(peer.send(last.getvalue()).socket))
        slow_broker.wait_until(lambda b: b.sign_ins.failures.waiting == 2)
        answers.append(peers[3].send(last.getvalue()).read_to_the_end())
    assert answers[0].endswith(outcome(SASL_AUTH))
    assert answers[1].endswith(outcome(SASL_SYS_TEMP))

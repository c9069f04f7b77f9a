"""What a name in `listen` stands for on this machine."""

import socket
from contextlib import closing

import pytest
from tools.peers.ports import free_port

from postroom.server.configuration.listening import ListenConfig
from postroom.server.exits import Exit, StartError
from postroom.server.listening.listeners import Listener

HERE = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 0))
ELSEWHERE = (socket.AF_INET6, socket.SOCK_STREAM, 0, "", ("2001:db8::1", 0, 0, 0))
"""An address of the range for documentation, which no machine has (RFC 3849)."""


@pytest.mark.parametrize("found", [[HERE, ELSEWHERE], [ELSEWHERE, HERE]])
def test_an_address_that_the_machine_lacks_is_left_out(
    monkeypatch: pytest.MonkeyPatch, found: list[tuple[object, ...]]
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    listener = Listener(ListenConfig(address="localhost:0"))
    assert [each.getsockname()[0] for each in listener.sockets] == ["127.0.0.1"]
    listener.close()


def test_a_name_without_any_address_of_the_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [ELSEWHERE])
    with pytest.raises(StartError, match="can't listen on elsewhere:0") as failed:
        Listener(ListenConfig(address="elsewhere:0"))
    assert failed.value.code == Exit.ADDRESS


def test_a_port_that_is_taken_at_one_of_the_addresses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        there = (*HERE[:4], taken.getsockname())
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [ELSEWHERE, there])
        with pytest.raises(StartError, match="in use"):
            Listener(ListenConfig(address="localhost:0"))


def test_a_port_at_which_another_listens_by_now_is_refused() -> None:
    """Two can be bound to it while neither listens; whoever listens second hears of it."""
    config = ListenConfig(address=f"127.0.0.1:{free_port()}")
    first, second = Listener(config), Listener(config)
    with closing(first), closing(second):
        first.listen()
        with pytest.raises(StartError, match=f"can't listen on {config.address}: .*in use") as failed:
            second.listen()
    assert failed.value.code == Exit.ADDRESS

"""The configuration of the how-to page does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.peers import Postroom, RabbitMQ
from tools.peers.broker import ROOT

from tests.crash.kills import source_of_this_build, url_of
from tests.foreign import scene
from tests.foreign.scene import Partner, count_of, numbered

pytestmark = [pytest.mark.sockets, pytest.mark.peer]

PAGE = (ROOT / "docs/howto/foreign-brokers.md").read_text()


def test_orders_go_there_and_answers_come_back(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    found = re.search(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    postroom = Postroom(tmp_path, source_of_this_build())
    postroom.configuration = found[1].replace("127.0.0.1:5673", f"127.0.0.1:{rabbitmq.port}")
    (tmp_path / "rabbit.password").write_text("guest\n")
    with postroom:
        scene.send(url_of(postroom), "orders", numbered(3))
        assert [message.body for message in Partner(rabbitmq, "orders").receive(count_of(3))] == [0, 1, 2]
        Partner(rabbitmq, "answers").send([*numbered(2), *numbered(3)])
        answers = scene.receive(url_of(postroom), "answers", count_of(3))
        assert [message.body for message in answers] == [0, 1, 2]

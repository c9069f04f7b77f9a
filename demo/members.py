"""The fourth chapter: ROME, a queue manager of three members, whose active one is killed under load."""

from __future__ import annotations

import asyncio
import shutil
import time
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from tools.peers.nats import NatsCluster
from tools.peers.ports import free_ports

from demo.broker import Broker
from demo.narrator import Narrator
from demo.tally import Tally
from postroom.client import AcknowledgeMode, Message, TransactionRolledBackException
from postroom.client.aio import Connection, ConnectionFactory
from postroom.server.http.tokens import TOKENS_NAME, Right, add_token

NAMES = "abc"
SETTINGS = """
[http]
address = "127.0.0.1:{http}"
[replication]
member = "{member}"
servers = {servers}
monitoring = {monitoring}
[[queue]]
name = "trades"
duplicate_window = {window}
redelivery_delay_ms = 0
[[queue]]
name = "settled"
"""
TRADES, AT_ONCE, A_TRANSACTION = 3_000, 50, 20
KILL_AT = TRADES // 3
"""So many are settled when the active member is killed."""


class Members:
    """The members, on three NATS nodes; the first is active, the others follow."""

    def __init__(self, out: Path) -> None:
        ports = free_ports(2 * len(NAMES))
        with ExitStack() as stack:
            nats = stack.enter_context(NatsCluster(out / "nats"))
            self.all: list[Broker] = []
            for name, port, http in zip(NAMES, ports[: len(NAMES)], ports[len(NAMES) :], strict=True):
                known = {"servers": nats.urls, "monitoring": nats.monitoring, "window": TRADES}
                settings = SETTINGS.format(http=http, member=name, **known)
                self.all.append(Broker(out / f"rome-{name}", "ROME", settings, port))
                stack.callback(self.all[-1].stop)
            self.token = self._token()
            self.all[0].start()
            for member in self.all[1:]:
                member.launch()
            self._stack = stack.pop_all()
        self.http = ",".join(f"http://127.0.0.1:{port}" for port in ports[len(NAMES) :])
        """Where the active one serves the ledger."""

    def _token(self) -> str:
        """Which opens the ledger at each of them."""
        folders = [member.data for member in self.all]
        for folder in folders:
            folder.mkdir(parents=True)
        token = add_token(folders[0] / TOKENS_NAME, "pipeline", [Right.LEDGER])
        for folder in folders[1:]:
            shutil.copy(folders[0] / TOKENS_NAME, folder / TOKENS_NAME)
        return token

    @property
    def url(self) -> str:
        """Of all members."""
        return f"failover:({','.join(member.url for member in self.all)})"

    def stop(self) -> None:
        """All members, and NATS."""
        self._stack.close()


class TakeOver(Narrator):
    """Trades are sent and settled, each once, while who serves them changes."""

    def __init__(self, members: Members, tally: Tally, console: Console) -> None:
        super().__init__(console)
        self._members = members
        self._tally = tally
        self._settled = 0
        self._failed = 0
        self._killed_s = 0.0
        self._pause_s = 0.0

    def play(self) -> None:
        """Kill the active member under load, and count."""
        self.title("The active one of three members is killed under load")
        self.narrate(
            f"{TRADES:,} trades are sent, {AT_ONCE} at a time; meanwhile each is moved to `settled`,"
            f" {A_TRANSACTION} in a transaction"
        )
        amounts = asyncio.run(self._act())
        self.narrate(
            f"SIGKILL to member a with {KILL_AT:,} settled; another took over, and the next transaction was"
            f" committed after {self._pause_s:.1f} s; {self._failed} rolled back, done again"
        )
        expected = list(range(TRADES))
        twice = len(amounts) - len(set(amounts))
        self.narrate(
            f"settled: {len(amounts):,} trades, {twice} of them twice; their sum is {sum(amounts):,},"
            f" and {sum(expected):,} was sent"
        )
        if sorted(amounts) != expected:
            raise AssertionError(f"trades that were settled: {sorted(amounts)}")
        self._tally.add("trades", "consumed", TRADES)
        self._tally.add("settled", "consumed", TRADES)
        self._members.all[0].launch()
        self.narrate("member a is started again, and follows")

    async def _act(self) -> list[int]:
        """Send, settle, and take what was settled: the amounts."""
        factory = ConnectionFactory(self._members.url)
        async with await factory.create_connection() as sends, await factory.create_connection() as settles:
            sending = asyncio.create_task(self._send(sends))
            await self._settle(settles, sending)
            await sending
            consumer = await (await settles.create_session()).create_consumer("settled", prefetch=1_000)
            amounts: list[int] = []
            while (message := await consumer.receive_no_wait()) is not None:
                assert isinstance(message.body, int)
                amounts.append(message.body)
            return amounts

    async def _send(self, connection: Connection) -> None:
        producer = await (await connection.create_session()).create_producer("trades")
        for first in range(0, TRADES, AT_ONCE):
            some = (Message(amount, message_id=f"trade-{amount}") for amount in range(first, first + AT_ONCE))
            await producer.send_all(some)

    async def _settle(self, connection: Connection, sending: asyncio.Task[None]) -> None:
        """Until everything is sent and moved."""
        session = await connection.create_session(AcknowledgeMode.SESSION_TRANSACTED)
        consumer = await session.create_consumer("trades", prefetch=2 * A_TRANSACTION)
        producer = await session.create_producer("settled")
        while True:
            is_sent, batch = sending.done(), 0
            while batch < A_TRANSACTION and (message := await consumer.receive_no_wait()) is not None:
                await producer.send(Message(message.body, message_id=message.message_id))
                batch += 1
                if not self._killed_s and self._settled >= KILL_AT:
                    self._killed_s = time.monotonic()
                    await asyncio.to_thread(self._members.all[0].kill)
            try:
                await session.commit()
            except TransactionRolledBackException:
                self._failed += 1
                continue
            self._settled += batch
            if self._killed_s and not self._pause_s:
                self._pause_s = time.monotonic() - self._killed_s
            if is_sent and not batch:
                return

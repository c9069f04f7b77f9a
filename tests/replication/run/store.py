"""The message store's verbs over take-overs, as `tests.crash` calls them over kills."""

from __future__ import annotations

import asyncio
import random
import threading
import traceback
from contextlib import suppress
from typing import Final

from postroom.client import JMSException
from postroom.client.sync import ConnectionFactory
from tests.crash.history import History
from tests.crash.stored import QUEUE, StoredTraffic
from tests.replication.run.traffic import PACE_S, PATIENT, Client


class StoreVerbs(Client):
    """One verb after the other, from connection to connection, in a thread of its own: the client's other
    face.
    """

    def __init__(self, name: str, urls: list[str], problems: list[str], chance: random.Random) -> None:
        super().__init__(name, urls)
        history = History()
        history.problems = problems
        self._traffic: Final = StoredTraffic(history)
        self._traffic.is_queue_made = True
        self._problems: Final = problems
        self._chance: Final = chance
        self._is_over = threading.Event()

    async def run(self) -> None:
        thread = threading.Thread(target=self._work, name=self.name)
        thread.start()
        try:
            while thread.is_alive():
                await asyncio.sleep(PACE_S)
        finally:
            self._is_over.set()
            thread.join()

    def _work(self) -> None:
        try:
            while not self._is_over.is_set() and not self._live():
                pass
        except Exception:
            self._problems.append(f"client {self.name} failed: {traceback.format_exc()}")

    def _live(self) -> bool:
        """With one connection; whether everything is done."""
        for url in self.urls:
            with suppress(JMSException), ConnectionFactory(f"{url}?{PATIENT}").create_connection() as made:
                self._traffic.store = made.create_message_store(QUEUE)
                self._traffic.check()
                while not self.is_stopping and not self._is_over.wait(PACE_S):
                    self._traffic.call_one(self._chance)
                    self.steps += 1
                self._traffic.finish()
                return True
        self._is_over.wait(PACE_S)
        return False

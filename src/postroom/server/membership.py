"""A broker that is a member of a replicated queue manager: it waits until it is the active one."""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from postroom.ledger.errors import LedgerError, LedgerFailed, LedgerLocked
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.replication import member as member_module
from postroom.replication.errors import EngineUnavailable, Overtaken
from postroom.replication.folder_state import VERIFIERS_NAME
from postroom.replication.member import EngineThread, Member
from postroom.replication.options import Engine, ReplicationOptions, engine_of
from postroom.server.configuration.config import Config
from postroom.server.configuration.replication import ReplicationConfig
from postroom.server.exits import Exit, StartError
from postroom.server.kernel.members import Members
from postroom.server.logs import log
from postroom.server.private_files import replace_private
from postroom.server.status import STARTING

if TYPE_CHECKING:
    from postroom.replication.log import ReplicatedLog


GIVE_UP_S: Final = 5.0
"""So long a claim that is given up may take to be so."""


class Membership:
    """One process' part in a queue manager of several members."""

    def __init__(self, config: Config, urls: list[str]) -> None:
        """`urls`: what its listeners listen on. Raises `StartError` where the engine's library isn't
        here."""
        assert config.replication is not None
        self._options = options_of(config.replication)
        self.stop_after_s: Final = config.replication.stop_after_ms / 1000
        ledger_options = LedgerOptions(**msgspec.structs.asdict(config.ledger))
        urls = config.replication.urls or urls
        self._member = Member(
            _new_log(self._options), self._options, config.data_folder, ledger_options, urls, self._keep_file
        )
        self._folder = config.data_folder
        self._thread = EngineThread()
        self._ledger: Ledger | None = None
        self._is_lost = False
        self._successor = ""

    async def follow(self, ended: asyncio.Event) -> bool:
        """Until this member is the active one; False if the process' end came before, when `ended` is set.
        What SIGHUP asks for is done then. Raises `StartError`."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, log, logging.INFO, "reload-waits")
        log(logging.INFO, "following", member=self._options.member, stream=self._options.stream)
        following = asyncio.wrap_future(self._thread.start(self._member.follow()))
        stopping = asyncio.ensure_future(ended.wait())
        both: list[asyncio.Future[Any]] = [following, stopping]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not following.done():
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
            self.end()
            return False
        try:
            following.result()
        except (LedgerError, OSError) as error:
            self.end()
            code = Exit.LOCKED if isinstance(error, LedgerLocked) else Exit.LEDGER_REFUSED
            raise StartError(code, str(error)) from error
        log(logging.INFO, "active", member=self._options.member, stream=self._options.stream)
        return True

    def active_urls(self) -> list[str]:
        """Where clients reach the active member, while this one follows; empty where none is known."""
        return self._member.active_urls

    def open_ledger(self, now_us: int) -> Ledger:
        """As `Ledger.open`, of the folder that is the active member's."""
        self._ledger = self._member.open_ledger(self._thread, now_us)
        return self._ledger

    def report(self) -> dict[str, Any]:
        """How this member is, until it is active. In any thread."""
        member = self._member
        lag = member.growth.lag(member.sequence)
        return {
            "state": member.state if member.state != member_module.ACTIVE else STARTING,
            "member": self._options.member,
            "sequence": member.sequence,
            "position": member.position,
            "behind": lag.entries,
            "behind_s": round(max(lag.seconds, time.monotonic() - member.read_s), 1),
            "active_member": member.active_member,
            "active_urls": member.active_urls,
        }

    def report_of_active(self) -> dict[str, Any]:
        """The same once it is active."""
        active = self._member.active
        assert active is not None
        members = {
            note.member: {"state": note.state, **active.lag(note.sequence)._asdict()} for note in active.notes
        }
        return {"member": self._options.member, "sequence": active.sequence, "members": members}

    def _keep_file(self, name: str, data: bytes) -> None:
        """Of another member; what this version doesn't know is left alone."""
        if name == VERIFIERS_NAME:
            replace_private(self._folder / name, data)

    def replicate_verifiers(self, data: bytes) -> None:
        """Have what is kept of passwords at all members, durably. Raises `LedgerFailed`."""
        self._thread.run(self._member.replicate_file(VERIFIERS_NAME, data))

    def join(self, members: Members, end: Callable[[], object]) -> None:
        """Have the management node show the members and hand over; `end` begins this process' orderly end."""
        active = self._member.active
        assert active is not None

        def forget(name: str) -> None:
            self._thread.start(self._member.forget(name))  # one that can't be had is listed on

        def hand_over(name: str) -> None:
            self._successor = name
            end()

        members.notes = lambda: active.notes
        members.lag = lambda note: active.lag(note.sequence)
        members.forget = forget
        members.hand_over = hand_over

    def watch(self, loop: asyncio.AbstractEventLoop, lost: Callable[[LedgerFailed], None]) -> None:
        """`lost` is called in `loop` when this member may no longer be active."""

        def lose(error: LedgerFailed) -> None:
            self._is_lost = True
            lost(error)

        self._member.when_lost = lambda error: _call_soon(loop, lose, error)
        if self._member.failure is not None:
            lose(self._member.failure)

    def close_ledger(self) -> None:
        """In order while the claim is ours; else what isn't durable is lost."""
        assert self._ledger is not None
        try:
            if not self._is_lost:
                self._ledger.close()
                return
        except LedgerFailed as error:
            log(logging.ERROR, "ledger-failed", reason=str(error))
        self._ledger.abandon()

    def give_up(self) -> None:
        """End the process at once, from another thread than the broker's, whose loop stands still: others may
        claim without waiting, and what isn't durable is lost, as by a kill."""
        log(logging.CRITICAL, "claim-given-up", member=self._options.member)
        with contextlib.suppress(Exception):  # another's claim, or silence, ends ours as well
            self._thread.start(self._member.end()).result(GIVE_UP_S)
        os._exit(Exit.NOT_ACTIVE)

    def end(self) -> None:
        """Let go of the claim and of the engine."""
        self._thread.run(self._member.end(self._successor))
        self._thread.stop()


def _call_soon(
    loop: asyncio.AbstractEventLoop, lost: Callable[[LedgerFailed], None], error: LedgerFailed
) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended: nobody is left to be told
        loop.call_soon_threadsafe(lost, error)


def options_of(config: ReplicationConfig) -> ReplicationOptions:
    """A member's settings as the configuration says."""
    values = msgspec.structs.asdict(config) | {
        "allow": frozenset(config.allow),
        "servers": tuple(config.servers),
        "monitoring": tuple(config.monitoring),
        "copy_from": tuple(config.copy_from),
    }
    del values["urls"], values["redirect"]
    return ReplicationOptions(**values)


def _new_log(options: ReplicationOptions) -> "ReplicatedLog":
    # Imported here: who isn't a member starts sooner, and needs no library for it.
    engine = engine_of(options.servers)
    try:
        if engine is Engine.KAFKA:
            from postroom.replication.kafka_log import KafkaLog

            return KafkaLog(options)
        from postroom.replication.nats_log import NatsLog

        return NatsLog(options)
    except ImportError as error:
        extra = f"pip install 'postroom[{engine.name.lower()}]'"
        what = f"[replication] needs a library that isn't here ({error.name}): {extra}"
        raise StartError(Exit.CONFIGURATION, what) from error


def stopped_by(failure: BaseException) -> bool:
    """Whether a member stopped because it may no longer be active: started again, it follows."""
    return isinstance(failure, (EngineUnavailable, Overtaken))

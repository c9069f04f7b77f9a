"""From a configuration to a running broker, and from a signal to its orderly end."""

import asyncio
import contextlib
import gc
import logging
import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from postroom import __version__
from postroom._build import compiled
from postroom.ledger.errors import LedgerError, LedgerFailed, LedgerLocked
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.storage.writer import request_prompt_wakeups
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.manager import QueueManager
from postroom.server.access.verifier_file import VerifierFile
from postroom.server.addresses import is_loopback
from postroom.server.assembly import define_channels, define_queues, manager_options
from postroom.server.clock import WALL, Clock, wall_us
from postroom.server.configuration.config import Config
from postroom.server.configuration.dead_letter_handlers import load_handlers
from postroom.server.configuration.file_modes import warn_of_readers
from postroom.server.connection.broker import Broker
from postroom.server.connection.message_log import MessageLogWriter, is_wanted
from postroom.server.console.parts import console_parts
from postroom.server.exits import Exit, StartError
from postroom.server.http.http_service import Http
from postroom.server.http.tokens import tokens_file
from postroom.server.listening.listeners import Listener
from postroom.server.listening.redirection import Redirection
from postroom.server.listening.service import Service
from postroom.server.logs import log
from postroom.server.membership import Membership, stopped_by
from postroom.server.reload import Reloader
from postroom.server.status import ACTIVE, TICK_S, StatusDoor
from postroom.server.threads import LoopWatch, TendedThread
from postroom.server.tracing.tracer import make_tracer

SWITCH_INTERVAL_S: Final = 0.0002
"""So long the ledger's maintenance, or a read, keeps the interpreter while the event loop wants it."""
ANSWER_S: Final = 0.2
"""So long the answer to the command that ends the process has to leave."""
COLLECTOR_THRESHOLDS: Final = (50_000, 50, 1000)


def serve(config: Config, read: Callable[[], Config] | None = None) -> Exit:
    """Run a broker until it is told to stop (SIGTERM, SIGINT) or its ledger fails; at SIGHUP it takes the
    configuration that ``read`` gives then. Raises `StartError`."""
    try:
        return uvloop.run(_serve(config, read or (lambda: config)))
    finally:
        gc.freeze()  # the process ends: what there is need not be looked through for garbage once more


@contextmanager
def _no_collection() -> Iterator[None]:
    """What a start makes is to stay: to look through it for garbage, again and again, takes longer than to
    make it where there are very many queues."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@_no_collection()
def open_ledger(config: Config, opened: Callable[[int], Ledger] | None = None) -> Ledger:
    """Open the data folder and recover; by `opened`, with the time, where it isn't this machine's alone.
    Raises `StartError`."""
    options = LedgerOptions(**msgspec.structs.asdict(config.ledger))
    try:
        return opened(wall_us()) if opened else Ledger.open(config.data_folder, options, wall_us())
    except LedgerLocked as error:
        raise StartError(Exit.LOCKED, str(error)) from error
    except LedgerError as error:
        raise StartError(Exit.LEDGER_REFUSED, str(error)) from error
    except OSError as error:
        what = f"data folder {config.data_folder}: {error.strerror or error}"
        raise StartError(Exit.LEDGER_REFUSED, what) from error


@_no_collection()
def make_broker(
    config: Config,
    ledger: Ledger,
    clock: Clock = WALL,
    options: ManagerOptions | None = None,
    membership: Membership | None = None,
) -> Broker:
    """The queue manager as it was, the queues of the configuration, and everything of that durable.

    ``options``: in place of those that the configuration says. Raises `StartError`.
    """
    now_us = clock.now_us()
    manager = QueueManager(options or manager_options(config), ledger.builder)
    try:
        manager.restore(ledger.recovered, now_us)
    except LedgerError as error:
        raise StartError(Exit.LEDGER_REFUSED, str(error)) from error
    verifiers = VerifierFile(config.data_folder, membership.replicate_verifiers if membership else None)
    broker = Broker(config, ledger, manager, lambda: uuid.uuid4().hex, verifiers)
    broker.access.forget_unused_verifiers()
    left_over = broker.dynamic.delete_left_over(now_us)
    define_queues(config, manager, now_us)
    broker.channels.restore(now_us)
    define_channels(config, broker.channels, now_us)
    broker.durable_through = ledger.flush_for_readers()  # who find the queues as soon as it listens
    manager.durable(broker.durable_through, now_us)  # nothing else says so: no block may follow for long
    for line in ledger.recovered.report.cut:
        log(logging.WARNING, "ledger-tail-cut", what=line)
    del ledger.recovered  # millions of packed entries, of which the queue manager has its own copy
    log(logging.INFO, "recovered", queues=len(manager.queues), dynamic_queues_deleted=left_over)
    broker.dead_letters.begin(load_handlers(config), now_us)
    return broker


def _log_who_may(config: Config, broker: Broker) -> None:
    """Say which doors are closed to everybody, or open."""
    open_to = [listen.address for listen in config.listen if listen.allows_anonymous]
    for listen in config.listen:
        by_certificate = listen.takes_certificates and broker.access.in_force
        others = broker.sign_ins.users or by_certificate or config.oauth is not None
        if not listen.allows_anonymous and not others:
            what = "anonymous clients are not let in here, and there are no users"
            log(logging.WARNING, "nobody-can-log-in", listen=listen.address, reason=what)
    if open_to and not broker.access.in_force:
        local = all(is_loopback(listen.host) for listen in config.listen if listen.allows_anonymous)
        what = "no users or roles are defined: everybody who connects may do everything"
        log(logging.INFO if local else logging.WARNING, "open-to-all", listen=",".join(open_to), reason=what)


def _exit_of(failure: BaseException) -> Exit:
    if stopped_by(failure):
        return Exit.NOT_ACTIVE
    if isinstance(failure, LedgerFailed):
        return Exit.LEDGER_FAILED
    return Exit.LEDGER_REFUSED if isinstance(failure, LedgerError) else Exit.FAILED


def _tune_collector() -> None:
    """What lives since the start is not looked at again, and what a turn makes is rarely cyclic."""
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


def _warn_of_readers(config: Config) -> None:
    """Of files with secrets; keys of listeners are checked as they are loaded."""
    for each in config.credentials.values():
        for name in (each.password_file, each.key_file or each.cert_file):
            if name:
                warn_of_readers(Path(name))
    if config.http_served is not None:
        warn_of_readers(tokens_file(config.http_served, config.data_folder))
    if config.tracing is not None and config.tracing.headers_file:
        warn_of_readers(Path(config.tracing.headers_file))


async def _serve(config: Config, read: Callable[[], Config]) -> Exit:
    _warn_of_readers(config)
    listeners = [Listener(listen) for listen in config.listen]
    http = Http(config, console_parts)
    with StatusDoor(config.data_folder) as door:
        if config.replication is not None:
            return await _serve_as_member(config, listeners, http, read, door)
        ledger = open_ledger(config)
        try:
            return await _run(config, listeners, http, ledger, read, door, asyncio.Event())
        finally:
            http.stop()
            ledger.close()


async def _serve_as_member(
    config: Config, listeners: list[Listener], http: Http, read: Callable[[], Config], door: StatusDoor
) -> Exit:
    """The same for one member of several: first it follows, then it is the active one."""
    assert config.replication is not None
    urls = [url for listener in listeners for url in listener.bound_urls()]
    consoles = http.listener.http_urls() if http.listener is not None else []
    membership = Membership(config, urls + consoles)
    ended = asyncio.Event()
    _end_at_signals(ended)
    door.report = membership.report
    http.begin(door.whole)
    redirected = listeners if config.replication.redirect else []
    async with Redirection(config, redirected, membership.active_urls):
        if not await membership.follow(ended):
            http.stop()
            return Exit.STOPPED
    try:
        ledger = open_ledger(config, membership.open_ledger)
        try:
            return await _run(config, listeners, http, ledger, read, door, ended, membership)
        finally:
            http.stop()
            membership.close_ledger()
    finally:
        membership.end()


def _end_at_signals(ended: asyncio.Event) -> None:
    """Of a member from its first moment on: one that comes while it takes over mustn't be lost."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)


def _show_active(
    door: StatusDoor,
    broker: Broker,
    ledger: Ledger,
    urls: list[str],
    membership: Membership | None,
) -> None:
    """Have `postroom status` find a broker that serves clients."""

    def report() -> dict[str, Any]:
        return {
            "state": ACTIVE,
            "ledger_id": str(ledger.ledger_id),
            "epoch": ledger.epoch,
            "position": ledger.durable_through,
            "space_low": broker.space_low,
            "urls": urls,
            **(membership.report_of_active() if membership is not None else {}),
        }

    door.report = report


def _tend(
    door: StatusDoor, loop: asyncio.AbstractEventLoop, broker: Broker, threads: list[TendedThread]
) -> None:
    """Say again and again that the loop runs, and look at what runs beside it."""

    def tick() -> None:
        door.tick()
        broker.alarms.of_threads({each.name: each.failure for each in threads if each.failure}, wall_us())
        loop.call_later(TICK_S, tick)

    tick()


async def _run(
    config: Config,
    listeners: list[Listener],
    http: Http,
    ledger: Ledger,
    read: Callable[[], Config],
    door: StatusDoor,
    ended: asyncio.Event,
    membership: Membership | None = None,
) -> Exit:
    loop = asyncio.get_running_loop()
    request_prompt_wakeups()  # the maintenance of the ledger, a thread that runs by now, is served as others
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    broker = make_broker(config, ledger, membership=membership)
    _log_who_may(config, broker)
    tracer = make_tracer(config, ledger)
    if tracer is not None:
        tracer.start(broker.manager)
    service = Service(config, listeners, ledger, broker, loop, ended=ended)
    if membership is not None:
        membership.watch(loop, service.fail)
        membership.join(broker.members, lambda: loop.call_later(ANSWER_S, ended.set))
    give_up = (membership.give_up, membership.stop_after_s) if membership is not None else ()
    with _abandoned_on_error(service), LoopWatch(lambda: door.ticked_s, *give_up) as watch:
        await service.start()
        message_log = MessageLogWriter(
            config.data_folder,
            config.message_log,
            partial(is_wanted, broker),
            lambda: ledger.durable_through,
            ledger.read_bodies,
        )
        message_log.start()
        _tune_collector()
        _end_at_signals(ended)
        all_listeners = listeners if http.listener is None else [*listeners, http.listener]
        reloader = Reloader(broker, all_listeners, read)
        loop.add_signal_handler(signal.SIGHUP, service.command, reloader.reload)
        if membership is not None:
            service.command(reloader.reload)  # it may have followed for long
        _show_active(door, broker, ledger, service.urls(), membership)
        threads = [door.thread, watch.thread, http.thread, message_log.thread]
        _tend(door, loop, broker, threads if tracer is None else [*threads, *tracer.threads])
        _announce(config, service, ledger, http.listen())
        http.start(broker, ledger, listeners, service.command_from_thread, door.whole, tracer)
        await ended.wait()
        if service.failure is not None:
            return _exit_of(service.failure)
        log(logging.INFO, "stopping")
        await service.stop()
        message_log.stop()
        if tracer is not None:
            tracer.stop()
        log(logging.INFO, "stopped")
        return Exit.STOPPED


@contextlib.contextmanager
def _abandoned_on_error(service: Service) -> Iterator[None]:
    """The event loop must not wait for the ledger's descriptor when that is closed: libuv would end the
    process before the error is told."""
    try:
        yield
    except BaseException as error:
        service.abandon(error)
        raise


def _announce(config: Config, service: Service, ledger: Ledger, served: list[str]) -> None:
    """Say that the broker is there; `served`: where it takes HTTP."""
    log(
        logging.INFO,
        "started",
        version=__version__,
        build="compiled" if compiled() else "interpreted",
        listen=",".join(service.addresses()),
        http=",".join(served) or "off",
        data=config.data_folder,
        ledger=ledger.ledger_id,
        epoch=ledger.epoch,
    )
    for url in service.urls():
        # On standard output, for whoever started the process and waits for it; logs go to standard error.
        print(f"listening on {url}", flush=True)
    for url in served:
        print(f"serving {url}", flush=True)

"""From a configuration to a running broker, and from a signal to its orderly end."""

import asyncio
import gc
import logging
import signal
import sys
import uuid
from functools import partial
from typing import Final

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
from postroom.server.assembly import define_channels, define_queues, manager_options
from postroom.server.clock import WALL, Clock, wall_us
from postroom.server.configuration.config import Config
from postroom.server.configuration.dead_letter_handlers import load_handlers
from postroom.server.connection.broker import Broker
from postroom.server.connection.message_log import MessageLogWriter, is_wanted
from postroom.server.exits import Exit, StartError
from postroom.server.http.http_service import Http
from postroom.server.listening.listeners import Listener
from postroom.server.listening.service import Service
from postroom.server.logs import log

SWITCH_INTERVAL_S: Final = 0.0002
"""So long the ledger's maintenance, or a read, keeps the interpreter while the event loop wants it."""
COLLECTOR_THRESHOLDS: Final = (50_000, 50, 1000)


def serve(config: Config) -> Exit:
    """Run a broker until it is told to stop (SIGTERM, SIGINT) or its ledger fails. Raises `StartError`."""
    return uvloop.run(_serve(config))


def open_ledger(config: Config) -> Ledger:
    """Open the data folder and recover. Raises `StartError`."""
    options = LedgerOptions(**msgspec.structs.asdict(config.ledger))
    try:
        return Ledger.open(config.data_folder, options, wall_us())
    except LedgerLocked as error:
        raise StartError(Exit.LOCKED, str(error)) from error
    except LedgerError as error:
        raise StartError(Exit.LEDGER_REFUSED, str(error)) from error
    except OSError as error:
        what = f"data folder {config.data_folder}: {error.strerror or error}"
        raise StartError(Exit.LEDGER_REFUSED, what) from error


def make_broker(
    config: Config, ledger: Ledger, clock: Clock = WALL, options: ManagerOptions | None = None
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
    broker = Broker(config, ledger, manager, lambda: uuid.uuid4().hex)
    left_over = broker.dynamic.delete_left_over(now_us)
    define_queues(config, manager, now_us)
    broker.channels.restore(now_us)
    define_channels(config, broker.channels, now_us)
    broker.durable_through = ledger.flush()
    for line in ledger.recovered.report.cut:
        log(logging.WARNING, "ledger-tail-cut", what=line)
    del ledger.recovered  # millions of packed entries, of which the queue manager has its own copy
    log(logging.INFO, "recovered", queues=len(manager.queues), dynamic_queues_deleted=left_over)
    broker.dead_letters.begin(load_handlers(config), now_us)
    return broker


def _warn_of_closed_doors(config: Config) -> None:
    for listen in config.listen:
        if not listen.allows_anonymous and not config.users:
            what = "anonymous clients are not let in here, and no [users] are configured"
            log(logging.WARNING, "nobody-can-log-in", listen=listen.address, reason=what)


def _exit_of(failure: BaseException) -> Exit:
    if isinstance(failure, LedgerFailed):
        return Exit.LEDGER_FAILED
    return Exit.LEDGER_REFUSED if isinstance(failure, LedgerError) else Exit.FAILED


def _tune_collector() -> None:
    """What lives since the start is not looked at again, and what a turn makes is rarely cyclic."""
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


async def _serve(config: Config) -> Exit:
    listeners = [Listener(listen) for listen in config.listen]
    _warn_of_closed_doors(config)
    http = Http(config)
    ledger = open_ledger(config)
    try:
        return await _run(config, listeners, http, ledger)
    finally:
        http.stop()
        ledger.close()


async def _run(config: Config, listeners: list[Listener], http: Http, ledger: Ledger) -> Exit:
    loop = asyncio.get_running_loop()
    request_prompt_wakeups()  # the maintenance of the ledger, a thread that runs by now, is served as others
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    broker = make_broker(config, ledger)
    service = Service(config, listeners, ledger, broker, loop)
    await service.start()
    message_log = MessageLogWriter(
        config.data_folder,
        config.message_log,
        partial(is_wanted, broker),
        lambda: ledger.durable_through,
        ledger.read_bodies,
    )
    message_log.start()
    served = http.start(broker, ledger)
    _tune_collector()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, service.ended.set)
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
    await service.ended.wait()
    if service.failure is not None:
        return _exit_of(service.failure)
    log(logging.INFO, "stopping")
    await service.stop()
    message_log.stop()
    log(logging.INFO, "stopped")
    return Exit.STOPPED

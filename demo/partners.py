"""The second chapter: two queue managers, LONDON and PARIS, and the channels between them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from demo.broker import Broker
from demo.line import Line
from demo.narrator import Narrator
from demo.tally import Tally
from postroom.client import ConnectionFactory, Message, Session

LONDON = """
[queue_manager]
dead_letter_queue = "LONDON.DEAD"
[[queue]]
name = "LONDON.DEAD"
[[queue]]
name = "PARIS"
usage = "transmission"
[[channel]]
name = "LONDON.PARIS"
type = "sender"
connection = "amqp://127.0.0.1:{line}"
transmission_queue = "PARIS"
short_retry_interval_s = 1
[[channel]]
name = "PARIS.LONDON"
type = "receiver"
"""
PARIS = """
[queue_manager]
dead_letter_queue = "PARIS.DEAD"
[[queue]]
name = "PARIS.DEAD"
[[queue]]
name = "parcels"
[[queue]]
name = "signals"
[[queue]]
name = "locker"
max_messages = {locker}
[[queue]]
name = "LONDON"
usage = "transmission"
[[channel]]
name = "LONDON.PARIS"
type = "receiver"
message_retry_count = 2
message_retry_interval_ms = 200
[[channel]]
name = "PARIS.LONDON"
type = "sender"
connection = "amqp://127.0.0.1:{london}"
transmission_queue = "LONDON"
short_retry_interval_s = 1
"""
RULES = """\
* What found no room is put again; everything else stays for a person to look at.
INPUTQ('PARIS.DEAD') RETRYINT(1) WAIT(NO)
REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(3)
ACTION(IGNORE)
"""
PARCELS, MORE_PARCELS, SIGNALS = 1_000, 30, 20
LOCKER, FOR_THE_LOCKER = 5, 8
RETURN_TO_SENDER = {"JMS_IBM_Report_Exception": 0x07000000, "JMS_IBM_Report_Discard_Msg": 0x08000000}
PATIENCE_S = 30.0
SHOWN_ATTRIBUTES = ("state", "reason", "in_doubt", "in_doubt_messages", "last_sequence", "last_luwid")
"""What of the status is worth a newcomer's time."""


class Partners(Narrator):
    """One run: both queue managers, the line from LONDON to PARIS, what the clients say they did."""

    def __init__(self, london: Broker, paris: Broker, line: Line, tally: Tally, console: Console) -> None:
        self.london = london
        self.paris = paris
        self.line = line
        self.tally = tally
        super().__init__(console)
        self.lost = 0
        """Messages that are not persistent and didn't arrive."""

    # --- helpers

    @contextmanager
    def session(self, broker: Broker) -> Iterator[Session]:
        with ConnectionFactory(broker.url).create_connection() as connection:
            yield connection.create_session()

    def send(self, address: str, messages: list[Message]) -> None:
        """Put in LONDON; each is accepted when this returns."""
        with self.session(self.london) as session:
            session.create_producer(address).send_all(messages)
        self.tally.add("PARIS", "forwarded", len(messages))

    def take(self, broker: Broker, queue: str, count: int) -> list[Message]:
        """So many, whenever they come; and then whatever there is beyond."""
        found: list[Message] = []
        with self.session(broker) as session:
            consumer = session.create_consumer(queue)
            while len(found) < count:
                message = consumer.receive(PATIENCE_S)
                if message is None:
                    raise AssertionError(f"{count - len(found)} messages didn't come to {queue}")
                found.append(message)
            while (message := consumer.receive_no_wait()) is not None:
                found.append(message)
        self.tally.add(queue, "consumed", len(found))
        return found

    def status(self) -> dict[str, object]:
        """Of the channel from LONDON to PARIS."""
        return self.management.read("postroom.channel", "LONDON.PARIS")

    def show_status(self) -> None:
        status = self.status()
        status_text = ", ".join(
            f"{name} {status[name]}" for name in SHOWN_ATTRIBUTES if status[name] not in ("", 0, None)
        )
        self.narrate(f"LONDON.PARIS: {status_text}")

    def wait_until(self, happened: Callable[[], bool], what: str) -> None:
        """Look again and again until it has; ``what`` was waited for."""
        end = time.monotonic() + PATIENCE_S
        while not happened():
            assert time.monotonic() < end, f"in vain: {what}"
            time.sleep(0.05)

    def all_taken(self) -> bool:
        """Nothing is left on LONDON's transmission queue but what is in doubt."""
        return not self.management.read("postroom.queue", "PARIS")["messages_current"]

    # --- acts

    def play(self) -> None:
        """All acts in order."""
        with ConnectionFactory(self.london.url).create_connection() as connection:
            self.management = connection.create_management()
            self.messages_travel()
            self.the_line_is_cut()
            self.a_queue_fills_up()
            self.return_to_sender()
            self.rules_replay_dead_letters()

    def messages_travel(self) -> None:
        self.title("A second queue manager: LONDON sends to PARIS")
        self.send("parcels@PARIS", [Message(number) for number in range(PARCELS)])
        self.narrate(f"{PARCELS:,} parcels put in LONDON to parcels@PARIS: they wait there, on disk")
        found = [message.body for message in self.take(self.paris, "parcels", PARCELS)]
        in_order = "in order" if found == list(range(PARCELS)) else f"NOT in order: {found}"
        self.narrate(
            f"a channel started by itself and took them in batches: {len(found):,} arrived in PARIS,"
            f" {in_order}"
        )

    def the_line_is_cut(self) -> None:
        self.title("The line is cut in the middle of a batch")
        self.line.goes_dead_at_the_next_outcome()
        self.send("parcels@PARIS", [Message(number) for number in range(MORE_PARCELS)])
        if not self.line.dead.wait(PATIENCE_S):
            raise AssertionError("the batch was not confirmed")
        self.narrate(
            f"{MORE_PARCELS} more parcels: PARIS has stored the batch, and its answer is lost on the line"
        )
        self.send(
            "signals@PARIS",
            [Message(number, message_id=f"signal-{number}", durable=False) for number in range(SIGNALS)],
        )
        self.wait_until(self.all_taken, "the channel to take all")
        self.narrate(
            f"{SIGNALS} signals, not persistent, leave at once, outside any batch, into the dead line"
        )
        self.show_status()
        self.line.cut()
        self.line.repair()
        found = [message.body for message in self.take(self.paris, "parcels", MORE_PARCELS)]
        self.wait_until(lambda: not self.status()["in_doubt"], "the batch to be decided")
        self.show_status()
        self.narrate(
            f"the line is repaired, the two compare the last batch that each knows:"
            f" {len(found)} of {MORE_PARCELS} parcels are there, none of them twice"
        )
        if found != list(range(MORE_PARCELS)):
            raise AssertionError(f"parcels that arrived: {found}")
        with self.session(self.paris) as session:
            arrived = len(list(session.create_browser("signals")))
        self.lost = SIGNALS - arrived
        if arrived:
            self.tally.add("signals", "held", arrived)
        self.narrate(f"signals that arrived: {arrived}; the audit will name the others")

    def a_queue_fills_up(self) -> None:
        self.title("A queue in PARIS is full")
        self.send("locker@PARIS", [Message(number) for number in range(FOR_THE_LOCKER)])
        over = FOR_THE_LOCKER - LOCKER
        with self.session(self.paris) as session:
            self.wait_until(
                lambda: len(list(session.create_browser("PARIS.DEAD"))) == over, "the dead letters"
            )
        self.narrate(
            f"{FOR_THE_LOCKER} for a locker that holds {LOCKER}: the channel pauses and tries again, twice"
        )
        self.show_dead_letters()

    def return_to_sender(self) -> None:
        self.title("A message for nobody is returned to its sender")
        letter = Message(
            "is anybody there?", reply_to="answers", message_id="letter", properties=RETURN_TO_SENDER
        )
        self.management.create("postroom.queue", "answers")
        self.send("nobody@PARIS", [letter])
        report = self.take(self.london, "answers", 1)[0]
        reason = report.properties.get("JMS_IBM_Feedback")
        self.narrate(
            f"its sender wanted it back if need be: in LONDON's queue answers is {report.body!r},"
            f" reason {reason}"
        )
        self.tally.add("LONDON", "forwarded")

    def rules_replay_dead_letters(self) -> None:
        self.title("The dead-letter handler, with a rules table as IBM MQ has it")
        emptied = len(self.take(self.paris, "locker", LOCKER))
        rules = self.paris.data.with_name("rules.txt")
        rules.write_text(RULES)
        for line in RULES.splitlines():
            self.narrate(f"[dim]{line}")
        self.narrate(
            f"the locker is emptied ({emptied} taken), then `postroom dlq handle --rules rules.txt`:"
        )
        self.run("dlq", "handle", "--rules", str(rules), "--url", self.paris.url)
        over = FOR_THE_LOCKER - LOCKER
        self.tally.add("PARIS.DEAD", "consumed", over)
        found = [message.body for message in self.take(self.paris, "locker", over)]
        self.narrate(f"and in the locker are the other {over}: {found}")

    def show_dead_letters(self) -> None:
        self.run("dlq", "list", "--url", self.paris.url)

    def run(self, *arguments: str) -> None:
        """A command as people would type it, with what it prints."""
        command = [sys.executable, "-m", "postroom.cli", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        for line in (done.stdout + done.stderr).splitlines():
            self.console.print(f"  {line}", highlight=False, markup=False)
        if done.returncode:
            raise AssertionError(f"{' '.join(arguments)} ended with {done.returncode}")


def two(out: Path, line: Line) -> tuple[Broker, Broker]:
    """LONDON and PARIS, started."""
    london = Broker(out / "london", "LONDON", LONDON.format(line=line.port))
    london.start()
    paris = Broker(out / "paris", "PARIS", PARIS.format(locker=LOCKER, london=london.port))
    paris.start()
    line.target = (paris.host, paris.port)
    return london, paris

"""`postroom ledger verify | dump | acts | log | stats`: a look at a ledger, offline or beside its broker.

They take no lock and change nothing. Exit code 1: there is no ledger, or it can't be read; 3: `verify` found
damage.
"""

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from postroom.cli.common.options import data_option, json_option, one_line_errors
from postroom.cli.common.progress import progress_bar
from postroom.cli.common.tables import new_table, show_table
from postroom.cli.groups import Group, number_option
from postroom.cli.ledger.backup import backup_command, restore_command
from postroom.cli.ledger.lease import lease
from postroom.cli.ledger.places import export_command, upload_command
from postroom.ledger.reading.acts import Act, read_acts
from postroom.ledger.reading.dump import Filter, Line, dump, iso
from postroom.ledger.reading.message_log import MessageLog
from postroom.ledger.reading.reader import LedgerReader
from postroom.ledger.reading.stats import LedgerStats, stats
from postroom.ledger.verification.acceptance import accept
from postroom.ledger.verification.verification import Severity, Verification, verify

EXIT_DAMAGED: Final = 3
REFUSALS: Final = (401, 403)
"""Status of a failed sign-in, and of what was refused for want of a right."""
FOLLOW_S: Final = 1.0
"""How often `log --follow` looks for more."""


@click.group(cls=Group)
def ledger() -> None:
    """The record of every message: check it, list it, count it. Works beside a running broker."""


ledger.add_command(lease)
ledger.add_command(backup_command)
ledger.add_command(restore_command)
ledger.add_command(upload_command)
ledger.add_command(export_command)


@ledger.command("verify")
@data_option
@json_option
@click.option("--bodies", is_flag=True, help="Read every stored body too and compare its CRC.")
def verify_command(folder: Path, as_json: bool, bodies: bool) -> None:
    """Check files, seals, chains, CRCs, positions and every record; exit code 3 if anything is damaged."""
    with one_line_errors(), progress_bar("files", not as_json) as progress:
        result = verify(folder, bodies, progress)
    if as_json:
        click.echo(json.dumps(asdict(result) | {"is_whole": result.is_whole}, indent=2))
    else:
        _show_verification(result)
    if not result.is_whole:
        sys.exit(EXIT_DAMAGED)


def _show_verification(result: Verification) -> None:
    for finding in result.findings:
        click.echo(f"{finding.severity:<7}  {finding.where}: {finding.what}")
    bodies = f"{result.bodies_checked:,} bodies read" if result.with_bodies else "bodies not read (--bodies)"
    verdict = "whole" if result.is_whole else f"damaged: {_counted(result, Severity.ERROR)}"
    if result.is_whole and result.of(Severity.WARNING):
        verdict += f", {_counted(result, Severity.WARNING)}"
    positions = f"positions {result.first_position:,} to {result.durable_through:,}"
    files = f"{result.files} files, {result.size_bytes:,} bytes"
    click.echo(f"{files}, {positions}, {result.records:,} records, {bodies}: {verdict}")


def _counted(result: Verification, severity: Severity) -> str:
    count = len(result.of(severity))
    return f"{count} {severity}{'s' * (count != 1)}"


@ledger.command("accept")
@data_option
@click.option("--yes", is_flag=True, help="Don't ask.")
def accept_command(folder: Path, yes: bool) -> None:
    """Take the ledger as it is found where files are gone for good: from then on it counts as whole.

    Only with the broker stopped. What is damaged is not accepted. What is gone stays gone: tables that have
    it say so.
    """
    if not yes:
        click.confirm("Records in files that are gone are lost. Go on with what is there?", abort=True)
    with one_line_errors():
        accepted = accept(folder)
    before, now = accepted.before, accepted.now
    if before is None:
        click.echo("It had no superblock that could be read.")
    else:
        click.echo(f"It vouched for positions {before.first_position:,} to {before.end.position:,}.")
    click.echo(f"Now it vouches for positions {now.first_position:,} to {now.end.position:,}.")


@ledger.command("stats")
@data_option
@json_option
def stats_command(folder: Path, as_json: bool) -> None:
    """What each queue holds and what became of the rest; files, bytes, epochs."""
    with one_line_errors(), progress_bar("records", not as_json) as progress:
        counted = stats(folder, progress)
    if as_json:
        more = {"size_bytes": counted.size_bytes, "is_complete": counted.is_complete}
        click.echo(json.dumps(asdict(counted) | more, indent=2))
    else:
        _show_stats(counted)


def _show_stats(counted: LedgerStats) -> None:
    table = new_table("queue", "arrivals", "held", "by state", "ended", numbers=("arrivals", "held"))
    for queue in counted.queues:
        held = (f"{queue.arrivals:,}", f"{queue.held:,}")
        table.add_row(queue.queue, *held, _pairs(queue.states), _pairs(queue.outcomes))
    show_table(table)
    files = new_table("file", "bytes", "epoch", "positions", numbers=("bytes", "epoch"))
    for file in counted.files:
        positions = f"{file.first_position:,}–{file.last_position:,}" if file.epoch else ""
        files.add_row(file.name, f"{file.size_bytes:,}", str(file.epoch or ""), positions)
    show_table(files)
    if counted.leases:
        leases = new_table("lease", "owner", "from position", "until", "broken", numbers=("from position",))
        for each in counted.leases:
            until = iso(each.expires_us)
            leases.add_row(each.name, each.owner, f"{each.position:,}", until, each.reason)
        show_table(leases)
    if not counted.is_complete:
        click.echo(f"History begins at position {counted.first_position:,}; what is older is not counted.")
    click.echo(
        f"Ledger {counted.ledger_id}: {counted.records:,} records, {counted.size_bytes:,} bytes,"
        f" epochs {', '.join(map(str, counted.epochs))}, durable through position {counted.durable_through:,}"
        + (f", from {iso(counted.first_time_us)} to {iso(counted.last_time_us)}" if counted.records else "")
    )


def _pairs(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.items())


@ledger.command("dump")
@data_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@number_option("--from", "first", metavar="POSITION", help="The first position to show.")
@number_option("--to", "last", metavar="POSITION", help="The last position to show.")
@click.option("--queue", metavar="NAME", help="Only what happens on this queue.")
@number_option("--serial", help="Only the message with this serial.")
@click.option(
    "--undecided",
    is_flag=True,
    help="Also what is written and not known to be synced: for a broker that is dead.",
)
def dump_command(
    folder: Path,
    as_json: bool,
    first: int | None,
    last: int | None,
    queue: str | None,
    serial: int | None,
    undecided: bool,
) -> None:
    """Every event, one a line."""
    wanted = Filter(first, last, queue, None if serial is None else frozenset([serial]))
    with one_line_errors():
        for line in dump(folder, wanted, undecided):
            click.echo(json.dumps(line, ensure_ascii=False) if as_json else _text_line(line))


def _text_line(line: Line) -> str:
    rest = dict(line)
    head = f"{rest.pop('position'):>10}  {rest.pop('time')}"
    if "record" in rest:
        return f"{head}  {rest.pop('record')}  {_fields(rest)}"
    change = f"{rest.pop('from')} → {rest.pop('to')}"
    return f"{head}  {rest.pop('queue')}/{rest.pop('serial')}  {rest.pop('event')}: {change}  {_fields(rest)}"


def _fields(fields: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in fields.items())


@ledger.command("acts")
@data_option
@json_option
@number_option("--from", "first", metavar="POSITION", help="The first position to look at.")
@number_option("--to", "last", metavar="POSITION", help="The last position to look at.")
@click.option("--user", "by", metavar="USER", help="Only what this user has done, or was refused.")
@click.option("--refused", is_flag=True, help="Only what was refused, failed sign-ins too.")
def acts_command(
    folder: Path, as_json: bool, first: int | None, last: int | None, by: str | None, refused: bool
) -> None:
    """What administrators have done, and what was refused to whom: one act a line."""
    with one_line_errors():
        for act in read_acts(folder, first, last):
            if (by is None or act.get("user") == by) and (not refused or act["status"] in REFUSALS):
                click.echo(json.dumps(act, ensure_ascii=False) if as_json else _act_line(act))


def _act_line(act: Act) -> str:
    rest = dict(act)
    who = f"{rest.pop('user', '') or '-'}@{rest.pop('remote', '') or '-'}"
    what = f"{rest.pop('operation', '')} {rest.pop('type', '')} {rest.pop('name', '')!r}"
    head = f"{rest.pop('position'):>10}  {iso(rest.pop('time_us'))}  {rest.pop('status')}"
    return f"{head}  {who}  {what}  {_fields(rest)}".rstrip()


@ledger.command("log")
@data_option
@json_option
@click.option(
    "--queue", "names", multiple=True, metavar="NAME", help="Only this destination; may be repeated."
)
@number_option("--from", "first", metavar="POSITION", help="Begin here.")
@click.option("--follow", is_flag=True, help="Go on with what is written from now on, until interrupted.")
def log_command(folder: Path, as_json: bool, names: tuple[str, ...], first: int | None, follow: bool) -> None:
    """What happened to messages, one event a line, with the fields of WebLogic's message life-cycle log."""
    log = MessageLog(lambda definition, _: not names or definition.get("name") in names)
    with one_line_errors():
        position = first or 1
        while True:
            reader = LedgerReader(folder)
            for record in log.records(reader, max(position, reader.first_position), reader.durable_through):
                click.echo(json.dumps(record.fields(), ensure_ascii=False) if as_json else record.text())
            position = reader.durable_through + 1
            if not follow:
                return
            time.sleep(FOLLOW_S)

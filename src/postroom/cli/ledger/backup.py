"""`postroom ledger backup | restore`: a whole ledger into an object store, and back."""

from pathlib import Path

import click

from postroom.cli.common.options import data_option, one_line_errors, spark_extra
from postroom.ledger.reading.dump import iso

_URI_HELP = "A folder, file://…, s3://BUCKET/…, gs://…, abfs://…."


@click.command("backup")
@data_option
@click.option("--to", "uri", required=True, metavar="URI", help=_URI_HELP)
def backup_command(folder: Path, uri: str) -> None:
    """Back up a ledger with its bodies, beside its broker or without it; sealed files once for all backups.

    The ledger is checked as it is at one moment, and what was put there is read back.
    """
    with spark_extra():
        from postroom.spark.export.backup import Backups

    def show(name: str, size_bytes: int) -> None:
        click.echo(f"{name}  {size_bytes:,} bytes")

    with one_line_errors():
        name, backup = Backups(uri).make(folder, show)
    positions = f"positions {backup.first_position:,} to {backup.last_position:,}"
    files = f"{len(backup.files)} files, {backup.size_bytes:,} bytes"
    click.echo(f"backup {name} of ledger {backup.ledger_id}: {files}, {positions}: whole")


@click.command("restore")
@click.option("--from", "uri", required=True, metavar="URI", help=_URI_HELP)
@data_option
@click.option("--at", "name", default="", metavar="NAME", help="Which backup; default: the newest.")
@click.option(
    "--ledger", "ledger_id", default="", metavar="ID", help="Which ledger, where there are several."
)
@click.option(
    "--keep-place",
    "keeps_place",
    is_flag=True,
    help="For a member of a replicated queue manager whose log goes back as far as the backup.",
)
def restore_command(uri: str, folder: Path, name: str, ledger_id: str, keeps_place: bool) -> None:
    """Make a folder without a ledger that of a backup, checked; a broker starts on it.

    What came after the backup isn't in it: messages that were received since are there again, messages that
    were sent since are not.
    """
    with spark_extra():
        from postroom.spark.export.backup import Backups

    with one_line_errors():
        name, backup, covered = Backups(uri).restore(ledger_id, name, folder, keeps_place)
    click.echo(
        f"backup {name} of ledger {covered.ledger_id}, made {iso(backup.time_us)}: {covered.files} files,"
        f" {covered.size_bytes:,} bytes, positions {covered.first_position:,} to {covered.last_position:,}:"
        " whole; what came since is not in it"
    )

"""`postroom ledger upload | export`: sealed files into an object store, or as Parquet."""

import signal
import threading
from pathlib import Path

import click

from postroom.cli.common.options import (
    data_option,
    hash_key_option,
    one_line_errors,
    personal_option,
    policy_of,
    spark_extra,
    token_option,
)
from postroom.cli.common.progress import progress_bar
from postroom.cli.groups import number_option


@click.command("upload")
@data_option
@click.option(
    "--to",
    "uri",
    required=True,
    metavar="URI",
    help="Where: a folder, file://…, s3://BUCKET/…, gs://…, abfs://….",
)
@click.option("--watch", is_flag=True, help="Go on, and upload each file as it is sealed.")
@number_option(
    "--every",
    "every_s",
    least=0.1,
    fractions=True,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="With --watch: how often to look.",
)
def upload_command(folder: Path, uri: str, watch: bool, every_s: float) -> None:
    """Upload sealed files and list them in a manifest; what is there already is left as it is."""
    with spark_extra():
        from postroom.spark.export.upload import Upload, Uploaded

    def show(each: Uploaded) -> None:
        positions = f"positions {each.first_position:,} to {each.last_position:,}"
        click.echo(f"{each.name}  {each.size_bytes:,} bytes  {positions}")

    with one_line_errors():
        upload = Upload(folder, uri)
        if watch:
            upload.watch(_stop_signal(), show, every_s)
            return
        for each in upload.run():
            show(each)


def _stop_signal() -> threading.Event:
    """Set by Ctrl-C or SIGTERM: what is being uploaded is ended first."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


@click.command("export")
@click.option(
    "--data",
    "uri",
    default="postroom-data",
    show_default=True,
    metavar="URI",
    help="The ledger: the broker's folder, http(s)://BROKER, store:URI.",
)
@click.option("--out", required=True, metavar="URI", help="The folder or URI that the files are for.")
@click.option("--columns", metavar="NAME,…", default="", help="Only these columns of the events.")
@personal_option
@hash_key_option
@token_option
@number_option("--jobs", default=1, show_default=True, help="Processes side by side.")
def export_command(
    uri: str, out: str, columns: str, personal: tuple[str, ...], hash_key: str, token: str, jobs: int
) -> None:
    """Write the events of sealed files as Parquet, in folders by day and ledger.

    What was written stays; run it again for what was sealed since.
    """
    with spark_extra():
        from postroom.spark.export.parquet import Export, ExportOptions
        from postroom.spark.places.uris import place_of

    with one_line_errors(), progress_bar("files", True) as progress:
        options = ExportOptions(policy=policy_of(personal, hash_key))
        if columns:
            names = tuple(name.strip() for name in columns.split(","))
            options = ExportOptions(names, options.policy)
        made = Export(place_of(uri, token), out, options).run(jobs, progress)
    rows = sum(sum(note.files.values()) for note in made)
    click.echo(f"{len(made)} sealed files, {rows:,} events")

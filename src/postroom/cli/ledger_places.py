"""`postroom ledger upload`: sealed files into an object store."""

import signal
import threading
from pathlib import Path

import click

from postroom.cli.options import data_option, one_line_errors, spark_extra


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
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.1),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="With --watch: how often to look.",
)
def upload_command(folder: Path, uri: str, watch: bool, every_s: float) -> None:
    """Upload sealed files and list them in a manifest; what is there already is left as it is."""
    with spark_extra():
        from postroom.spark.upload import Upload, Uploaded

    def tell(each: Uploaded) -> None:
        positions = f"positions {each.first_position:,} to {each.last_position:,}"
        click.echo(f"{each.name}  {each.size_bytes:,} bytes  {positions}")

    with one_line_errors():
        upload = Upload(folder, uri)
        if watch:
            upload.watch(_until_told(), tell, every_s)
            return
        for each in upload.run():
            tell(each)


def _until_told() -> threading.Event:
    """Set by Ctrl-C or SIGTERM: what is being uploaded is ended first."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop

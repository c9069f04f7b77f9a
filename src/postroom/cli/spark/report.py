"""`postroom report`: what the tables of the pipeline say, as one HTML page with pictures."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from postroom.cli.common.options import one_line_errors, spark_extra, tables_option
from postroom.cli.groups import folder_option

if TYPE_CHECKING:
    from postroom.spark.audit.result import AuditResult

AUDIT_FILE = "audit.json"


@click.command("report")
@tables_option
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="The page."
)
@folder_option(
    "--audit",
    "audit_folder",
    help="What `postroom audit --out` wrote: its verdict stands at the head of the page.",
)
@folder_option("--pictures", help="Write the large pictures there, too, as SVG.")
@click.option("--all", "every", is_flag=True, help="Show each dynamic queue of clients by itself.")
def report(tables: str, out: Path, audit_folder: Path | None, pictures: Path | None, every: bool) -> None:
    """Draw where the messages went: one HTML file that needs nothing beside it, in light and dark.

    Spark itself isn't started; the extra `spark` brings what reads tables. Exit code 1: there are no tables,
    or they can't be read.
    """
    with spark_extra(), one_line_errors():
        from postroom.spark.report import page
        from postroom.spark.report.collect import collect

        data = collect(tables, None if audit_folder is None else _result(audit_folder), every)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page.page(data), encoding="utf-8")
        if pictures is not None:
            pictures.mkdir(parents=True, exist_ok=True)
            for name, drawn in page.pictures(data).items():
                (pictures / f"{name}.svg").write_text(drawn, encoding="utf-8")
    click.echo(out)


def _result(folder: Path) -> "AuditResult":
    """Raises what turns into one line."""
    import json

    from postroom.spark.audit.result import result_of

    path = folder / AUDIT_FILE
    try:
        return result_of(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError) as error:
        raise click.ClickException(f"{path}: not what postroom audit writes: {error}") from error

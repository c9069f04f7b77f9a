"""The audit itself says of damaged tables what `tests.spark.damage.verdicts` says, which plays the matrix."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from postroom.ledger.errors import LedgerError
from postroom.spark.audit.command import AuditOptions, run_audit
from tests.spark.damage.damages import Damage, damages_of
from tests.spark.damage.specimens import Specimen, make_specimen
from tests.spark.damage.verdicts import verdict_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

DAMAGES = {
    "events: body_bytes of a row changed": "violations",
    "reached.json: gone": "not proven",
    "entries: gone": "refused",
}
"""One of each kind, and what comes of it."""


@pytest.fixture(scope="module")
def specimen(tmp_path_factory: pytest.TempPathFactory) -> Specimen:
    return make_specimen(tmp_path_factory.mktemp("specimen"), "delta")


@pytest.fixture(scope="module")
def damages(specimen: Specimen) -> dict[str, Damage]:
    return {str(one): one for one in damages_of(specimen)}


@pytest.mark.long
@pytest.mark.parametrize("name", DAMAGES)
def test_the_audit_tells(
    name: str, spark: SparkSession, specimen: Specimen, damages: dict[str, Damage], tmp_path: Path
) -> None:
    root = tmp_path / "tables"
    shutil.copytree(specimen.root, root)
    damages[name].do(root)
    assert verdict_of(root).word == DAMAGES[name]

    @contextmanager
    def session(records: int) -> Iterator[SparkSession]:
        yield spark

    try:
        word = str(run_audit(AuditOptions(tables=str(root)), session).verdict)
    except (LedgerError, PySparkException, OSError):
        word = "refused"
    assert word == DAMAGES[name]

"""One Spark session for all tests of the package; those that use none don't load Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


WORKERS = """#!{python}
import os, runpy, sys
sys.path.insert(1, os.getcwd())  # behind the folder of this file, which has a pandas
os.environ["PYTHONPATH"] = "{without_pandas}:" + os.environ.get("PYTHONPATH", "")
if sys.argv[1:3] != ["-m", "pyspark.daemon"]:
    os.execv("{python}", ["{python}", *sys.argv[1:]])
import postroom.spark.ledger_source.source, postroom.spark.message_source, postroom.spark.store.source
del sys.argv[:2]
runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
"""
"""The Python of Spark's processes: each of hundreds is forked when it has all that it needs, and none finds
pandas, which PyArrow imports where it is there. Both together cost it more than a second."""


@pytest.fixture(scope="session", autouse=True)
def light_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("light")
    (folder / "pandas.py").write_text("raise ImportError('left out')\n")
    python = folder / "python"
    python.write_text(WORKERS.format(python=sys.executable, without_pandas=folder))
    python.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", str(python))
        yield


@pytest.fixture(scope="session")
def spark(light_workers: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from postroom.spark.session import local_session

    session = local_session("postroom tests", 2, tmp_path_factory.mktemp("spark"), is_short=True)
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")  # to compile costs more than a few rows
    yield session
    session.stop()


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The URI of an object store's bucket."""
    from tests.spark.object_store import object_store

    with object_store() as uri:
        yield uri

"""The pipeline on a standalone cluster, by its command under `spark-submit`: a broker's ledger over HTTP, the
tables in an object store; nothing is reached through a disk that driver and executors share."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import postroom
from postroom.server.configuration.http import HttpConfig
from tests.server.http_client import Served, serving
from tests.spark.local_pipeline import assert_whole
from tests.spark.object_store import SETTINGS, object_store
from tests.spark.real_ledgers import Writer
from tests.spark.session.test_places import send
from tests.sparkkills.standalone import MASTER_HOST, WORKER_HOSTS, standalone

pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.timeout(900)]

PARTITION_RECORDS = 100


def submitted(master: str, *words: str) -> subprocess.CompletedProcess[str]:
    """The command on the cluster; what executors must know is given to them by name."""
    code = os.pathsep.join(path for path in sys.path if path)
    given = {name: os.environ[name] for name in (*SETTINGS, "AWS_ENDPOINT_URL")} | {"PYTHONPATH": code}
    settings = {
        **{f"spark.executorEnv.{name}": value for name, value in given.items()},
        "spark.executor.memory": "512m",
        "spark.driver.host": MASTER_HOST,
        "spark.driver.bindAddress": MASTER_HOST,
        "spark.ui.enabled": "false",
    }
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-submit"), "--master", master, "--driver-memory", "512m"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += [str(Path(postroom.__file__).parent / "__main__.py"), "pipeline", "run", *words]
    environment = {
        **os.environ,
        "PYTHONPATH": code,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": MASTER_HOST,
    }
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=500)


def run(served: Served, master: str, tables: str, folder: Path) -> None:
    token = folder / "token"
    token.write_text(served.token)
    words = ("--data", served.url, "--token-file", str(token), "--tables", tables)
    done = submitted(master, *words, "--partition-records", str(PARTITION_RECORDS))
    assert done.returncode == 0, done.stderr


@pytest.mark.long  # a cluster of processes of its own, which takes minutes
def test_a_ledger_over_http_into_an_object_store(tmp_path: Path) -> None:
    cluster, data = tmp_path / "cluster", tmp_path / "data"
    writer = Writer(data)
    writer.write(400)
    writer.close()
    config = HttpConfig(address=f"{MASTER_HOST}:0", max_requests_per_s=10_000)
    with (
        standalone(cluster) as master,
        object_store() as bucket,
        serving(data, config, queues=("orders",)) as served,
    ):
        tables = f"{bucket}/tables"
        run(served, master, tables, tmp_path)
        assert_whole(tables, served.folder)
        send(served, 0, 2 * PARTITION_RECORDS)
        run(served, master, tables, tmp_path)  # goes on where the first has come to
        assert_whole(tables, served.folder)
    for host in WORKER_HOSTS:
        executors = list((cluster / host).glob("app-*/*/stderr"))
        assert len(executors) == 2, f"{host} has had an executor of each run"

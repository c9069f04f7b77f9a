"""An object store over the wire: moto's S3 server on a free port of this machine, and one bucket in it.

A real store decides conditional puts one after the other; moto looks first, and puts then. So here it works
off one request at a time. And moto's buckets belong to the process, not to a server: what an earlier one had
is dropped when a store begins.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final
from unittest import mock
from urllib.request import Request, urlopen

from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.server import ThreadedMotoServer

from postroom.spark.filesystems import exclusive_files

BUCKET: Final = "archive"
LOOPBACK: Final = "127.0.0.1"
SETTINGS: Final = {
    "AWS_ACCESS_KEY_ID": "tests",
    "AWS_SECRET_ACCESS_KEY": "tests",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
    "AWS_EC2_METADATA_DISABLED": "true",
}


_one_at_a_time: Final = Lock()
_answer: Final = DomainDispatcherApplication.__call__


def _answer_alone(application: DomainDispatcherApplication, *request: Any) -> Any:
    with _one_at_a_time:
        return _answer(application, *request)


@contextmanager
def object_store() -> Iterator[str]:
    """Its URI ``s3://BUCKET``, with the environment that leads there."""
    server = ThreadedMotoServer(LOOPBACK, 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    try:
        urlopen(Request(f"{endpoint}/moto-api/reset", method="POST")).close()
        urlopen(Request(f"{endpoint}/{BUCKET}", method="PUT")).close()
        alone = mock.patch.object(DomainDispatcherApplication, "__call__", _answer_alone)
        with alone, mock.patch.dict("os.environ", SETTINGS | {"AWS_ENDPOINT_URL": endpoint}):
            yield f"s3://{BUCKET}"
    finally:
        exclusive_files._store.cache_clear()
        server.stop()

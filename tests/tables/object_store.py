"""An object store over the wire: moto's S3 server on a free port of this machine, and one bucket in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from unittest import mock
from urllib.request import Request, urlopen

from moto.server import ThreadedMotoServer

from postroom.spark import creating

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


@contextmanager
def object_store() -> Iterator[str]:
    """Its URI ``s3://BUCKET``, with the environment that leads there."""
    server = ThreadedMotoServer(LOOPBACK, 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    try:
        urlopen(Request(f"{endpoint}/{BUCKET}", method="PUT")).close()
        with mock.patch.dict("os.environ", SETTINGS | {"AWS_ENDPOINT_URL": endpoint}):
            yield f"s3://{BUCKET}"
    finally:
        creating._store.cache_clear()
        server.stop()

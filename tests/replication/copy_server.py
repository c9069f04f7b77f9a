"""A member's HTTP as far as copies go, of a folder; it can break off, and refuse."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from postroom.ledger.copying.archive import archive_bytes, archive_pieces
from postroom.ledger.copying.frozen import freeze
from postroom.replication.copying import COPY_PATH
from postroom.replication.folder_state import BESIDE

TOKEN = "1f0e.secret"


class CopyServer(http.server.ThreadingHTTPServer):
    """Serves the folder that it has now."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.refusals: list[int] = []
        """Statuses of the next answers."""
        self.cuts: list[int] = []
        """After so many bytes the next answers break off."""
        self.served = 0
        """Answers that were whole."""
        self.frozen = threading.Event()
        """A ledger was frozen for an answer."""
        self.goes_on = threading.Event()
        """Answers leave."""
        self.goes_on.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: CopyServer

    def do_GET(self) -> None:
        assert self.path == COPY_PATH
        if self.headers["authorization"] != f"Bearer {TOKEN}":
            return self._refuse(401)
        if self.server.refusals:
            return self._refuse(self.server.refusals.pop(0))
        with closing(freeze(self.server.folder, BESIDE)) as found:
            self.server.frozen.set()
            self.server.goes_on.wait()
            self.send_response(200)
            self.send_header("content-length", str(archive_bytes(found)))
            self.end_headers()
            data = b"".join(read() for read in archive_pieces(found))
        if self.server.cuts:
            self.wfile.write(data[: self.server.cuts.pop(0)])
            return None
        self.wfile.write(data)
        self.server.served += 1
        return None

    def _refuse(self, status: int) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b'{"error": "word", "what": "no copy for you"}')

    def log_message(self, *_: object) -> None:
        """Not on standard error."""


@contextmanager
def copy_server(folder: Path) -> Iterator[CopyServer]:
    with CopyServer(folder) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()

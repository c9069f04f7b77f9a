"""The compiled version, built beside the demo: the processes that begin after that are compiled."""

import os
import subprocess
import threading
from pathlib import Path
from typing import Final

COMPILED: Final = Path("build/compiled")
LOG: Final = Path("demo/out/compiled.log")


class Compiling:
    """`make compiled`, under way."""

    def __init__(self) -> None:
        with LOG.open("wb") as log:
            self._make = subprocess.Popen(["make", "compiled"], stdout=log, stderr=subprocess.STDOUT)
        self._waiting = threading.Thread(target=self._use, name="compiling", daemon=True)
        self._waiting.start()

    def _use(self) -> None:
        if self._make.wait() == 0:
            os.environ["PYTHONPATH"] = str(COMPILED)

    def finish(self) -> bool:
        """Wait for its end; whether it went well."""
        self._waiting.join()
        return self._make.returncode == 0

    def stop(self) -> None:
        """End it, if it hasn't ended."""
        self._make.terminate()
        self._waiting.join()

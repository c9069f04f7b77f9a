"""The `postroom` command: start a broker, look after its queues, put and get messages, read its ledger.

Commands that need a running broker talk AMQP to it through `postroom.client`. Errors are one line on
standard error and an exit code other than 0.
"""

from postroom.cli.main import main

__all__ = ["main"]

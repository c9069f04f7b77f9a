"""Groups of commands that ask a running broker: names are completed, and what is shown can be watched."""

import os
import threading
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from postroom.cli.common.broker_connection import DEFAULT_URL, URL_VARIABLE, own_tls
from postroom.cli.common.watch import add_watch
from postroom.cli.groups import Group
from postroom.client import ConnectionFactory, JMSException
from postroom.model.entity_types import QUEUE_TYPE

if TYPE_CHECKING:
    _ParamType = click.ParamType[str]
else:
    _ParamType = click.ParamType  # generic since click 8.4 only

WATCHED: Final = ("list", "show", "status", "stats", "handlers", "holders")
"""Commands of these names show something and end."""
NAMING: Final = ("name", "queue", "to", "role_name")
"""Arguments that are names of what there is."""
MAKING: Final = ("create", "define", "add", "grant")
"""Commands whose names are new."""
COMPLETION_S: Final = 1.0
"""So long a completion waits for the broker, in all."""
MAX_COMPLETIONS: Final = 1000
"""Names that are looked at: one answer of the management node."""


class BrokerName(_ParamType):
    """The name of a thing of one type, any text; a running broker completes it, if it does so at once."""

    name = "text"

    def __init__(self, kind: str) -> None:
        self._kind: Final = kind

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """No names where there is no broker, or it is slow, or wants a password that the URL hasn't."""
        url = ctx.params.get("url")
        if not isinstance(url, str):
            url = os.environ.get(URL_VARIABLE, DEFAULT_URL)
        with ctx.scope(cleanup=False):
            tls = own_tls()
        found: list[str] = []

        def query() -> None:
            try:
                factory = ConnectionFactory(url, tls=tls)
                with factory.create_connection() as connection:
                    page = {"entityType": self._kind, "count": MAX_COMPLETIONS}
                    management = connection.create_management()
                    reply = management.request("QUERY", body={"attributeNames": ["name"]}, properties=page)
                    rows: Any = reply.attributes()["results"]
                    found.extend(str(name) for (name,) in rows)
            except (JMSException, ValueError):
                found.clear()

        thread = threading.Thread(target=query, daemon=True)
        thread.start()
        thread.join(COMPLETION_S)
        if thread.is_alive():
            os._exit(0)  # a name server that doesn't answer would hold an orderly exit
        return [CompletionItem(name) for name in sorted(found) if name.startswith(incomplete)]


QUEUE_NAME: Final = BrokerName(QUEUE_TYPE)


class BrokerGroup(Group):
    """Commands about things of the type ``names``."""

    def __init__(self, *args: Any, names: str, **more: Any) -> None:
        self._names: Final = BrokerName(names)
        super().__init__(*args, **more)

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """As click does it; names are completed, and what is shown can be watched."""
        called = name or cmd.name
        if any(each.name == "url" for each in cmd.params):
            if called in WATCHED:
                add_watch(cmd)
            for each in cmd.params if called not in MAKING else ():
                if isinstance(each, click.Argument) and each.name in NAMING and each.type is click.STRING:
                    each.type = self._names
        super().add_command(cmd, name)

"""What the console adds to what is served."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from postroom.server.http.route_group import RouteGroup, Shared


def console_parts(shared: "Shared") -> "list[RouteGroup]":
    """The console, where the configuration doesn't switch it off."""
    if not shared.config.console:
        return []
    # Imported here: who serves no HTTP starts without.
    from postroom.server.console.routes import ConsoleRoutes

    return [ConsoleRoutes(shared)]

"""HTML of the pages: every value is escaped, and a name that is none is an error."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from postroom.server.console import formats
from postroom.server.console.navigation import SECTIONS
from postroom.server.console.static_files import StaticFiles

FOLDER: Final = Path(__file__).parent / "templates"


class Templates:
    """Those of the console; each is compiled once."""

    def __init__(self, static_files: StaticFiles) -> None:
        self._environment: Final = Environment(
            loader=FileSystemLoader(FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            auto_reload=False,
            cache_size=-1,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            count=formats.count,
            short_count=formats.short_count,
            rate=formats.rate,
            size=formats.size,
            duration=formats.duration,
            moment=formats.moment,
            words=formats.words,
        )
        self._environment.globals.update(
            asset=static_files.path, path_of=formats.path_of, sections=SECTIONS, NOTHING=formats.NOTHING
        )

    def render(self, name: str, values: Mapping[str, object]) -> str:
        """The template of that file with these values."""
        return self._environment.get_template(name).render(values)

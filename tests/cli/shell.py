"""The command line with a broker's URL in its environment."""

import json

from click.testing import CliRunner, Result

from postroom.cli import main


class Shell:
    """Runs commands with the broker's URL in the environment; each begins with the words of ``group``."""

    def __init__(self, url: str, *group: str, columns: int = 0) -> None:
        self.url = url
        self.group = group
        width = {"COLUMNS": str(columns)} if columns else {}
        self.runner = CliRunner(env={"POSTROOM_URL": url, **width})

    def run(self, *arguments: str, stdin: str | bytes | None = None) -> Result:
        return self.runner.invoke(main, [*self.group, *arguments], input=stdin)

    def ok(self, *arguments: str, stdin: str | bytes | None = None) -> str:
        result = self.run(*arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *arguments: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.ok(*arguments, "--json").splitlines()]

"""How the demo speaks: titles, and lines beneath them."""

from rich.console import Console


class Teller:
    """Tells a story on a terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def title(self, words: str) -> None:
        self.console.print()
        self.console.rule(f"[bold]{words}", align="left")

    def say(self, words: str) -> None:
        self.console.print(f"  {words}")

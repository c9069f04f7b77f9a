"""How the demo speaks: titles, and lines beneath them."""

from rich.console import Console


class Narrator:
    """Tells a story on a terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def title(self, words: str) -> None:
        self.console.print()
        self.console.rule(f"[bold]{words}", align="left")

    def narrate(self, words: str) -> None:
        self.console.print(f"  {words}")

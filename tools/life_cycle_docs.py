"""Writes what the documentation shows of the life cycle, from the table: every cell, and a picture.

``python -m tools.life_cycle_docs`` rewrites the files; a test compares them with the table.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from postroom.model.cells import READY, UNREACHABLE, Cell, Count, Move, Place, Refusal
from postroom.model.codes import Event, HolderKind, Outcome, State
from postroom.model.holders import HOLDERS
from postroom.model.lifecycle import CELLS, cell_index, rows

DOCS = Path(__file__).parent.parent / "docs"
LISTING = DOCS / "reference" / "life-cycle-cells.inc"
PICTURE = DOCS / "_static" / "life-cycle.svg"

COUNT_WORDS = {
    Count.SAME: "",
    Count.IF_SENT: "+1 if sent",
    Count.ONE_MORE: "+1",
    Count.IF_QUEUE_COUNTS: "+1 if sent and the queue says so",
}


def words(name: str) -> str:
    return name.lower().replace("_", " ")


# -- the listing


def holder_table() -> str:
    lines = [
        "| holder | lost link | restart | count on return | bounded by |",
        "|---|---|---|---|---|",
    ]
    for kind, rule in HOLDERS.items():
        lines.append(
            f"| {words(kind.name)} | {rule.link_lost} | {rule.restart} | {rule.count_on_return} "
            f"| {rule.bounded_by} |"
        )
    return "\n".join(lines)


def cell_tables() -> str:
    parts = []
    for state, holder in rows():
        held = "nobody holds it" if holder == HolderKind.NONE else f"held by: {words(holder.name)}"
        parts.append(f"### {words(state.name)}, {held}\n\n{_table(state, holder)}")
    return "\n\n".join(parts)


def _table(state: State, holder: HolderKind) -> str:
    lines = [
        "| event | next state | held by | outcome | delivery count | failure count | place |",
        "|---|---|---|---|---|---|---|",
    ]
    unreachable = []
    for event in Event:
        what = CELLS[cell_index(state, holder, event)]
        if event == Event.NONE:
            continue
        if what is UNREACHABLE:
            unreachable.append(words(event.name))
        else:
            lines.append(f"| {words(event.name)} | {_cells(what)} |")
    return "\n".join(lines) + f"\n\nUnreachable: {', '.join(unreachable) or 'none'}."


def _cells(what: Cell) -> str:
    if isinstance(what, Refusal):
        return f"*refused: {what.error}* | | | | | "
    if not isinstance(what, Move):
        note = "; lost if not stored" if what.lost else ""
        return f"*{what.name}{note}* | | | | | "
    to = "ready" if what.to == READY else words(State(what.to).name)
    holders = ", ".join(words(kind.name) for kind in what.holders)
    outcome = "" if what.outcome == Outcome.NONE else words(what.outcome.name)
    if what.lost:
        outcome += "lost if not stored"
    place = "new" if what.place == Place.NEW else ""
    counts = f"{COUNT_WORDS[what.delivery]} | {COUNT_WORDS[what.failure]}"
    return f"{to} | {holders} | {outcome} | {counts} | {place}"


def listing() -> str:
    made = "<!-- Written by tools/life_cycle_docs.py from the table; don't edit. -->"
    return f"{made}\n\n## Holders\n\n{holder_table()}\n\n## Cells\n\n{cell_tables()}\n"


# -- the picture


@dataclass(frozen=True)
class Box:
    x: int
    y: int
    width: int = 170
    height: int = 56


BOXES = {
    State.START: Box(80, 330, 90),
    State.PUT_UNCONFIRMED: Box(270, 500),
    State.DELAYED: Box(420, 130),
    State.AVAILABLE: Box(500, 330),
    State.LOCKED_FOR_BROWSE: Box(610, 500),
    State.GET_UNCONFIRMED: Box(830, 190),
    State.BROWSE_GET_UNCONFIRMED: Box(900, 500, 230),
    State.DELETED: Box(1130, 330, 120),
}

# (from, to): the path, and where its label stands.
PATHS: dict[tuple[State, State], tuple[str, int, int]] = {
    (State.START, State.AVAILABLE): ("M125,330 L409,330", 265, 314),
    (State.START, State.DELAYED): ("M90,302 C100,170 200,130 329,130", 175, 146),
    (State.START, State.PUT_UNCONFIRMED): ("M90,358 C100,450 130,490 179,498", 78, 440),
    (State.PUT_UNCONFIRMED, State.AVAILABLE): ("M315,472 C360,420 400,380 445,361", 325, 420),
    (State.PUT_UNCONFIRMED, State.DELAYED): ("M240,472 C220,330 260,190 346,161", 250, 250),
    (State.PUT_UNCONFIRMED, State.PUT_UNCONFIRMED): ("M210,472 C190,430 240,430 230,469", 172, 426),
    (State.PUT_UNCONFIRMED, State.DELETED): ("M270,528 C270,640 1140,640 1140,361", 610, 606),
    (State.DELAYED, State.AVAILABLE): ("M430,158 C440,220 460,260 478,299", 420, 240),
    (State.DELAYED, State.DELAYED): ("M380,102 C360,60 430,60 412,99", 395, 62),
    (State.DELAYED, State.DELETED): ("M505,118 C760,40 1110,60 1130,299", 840, 76),
    (State.AVAILABLE, State.DELAYED): ("M530,302 C530,240 500,190 470,161", 524, 252),
    (State.AVAILABLE, State.GET_UNCONFIRMED): ("M585,318 C640,290 700,250 750,221", 596, 270),
    (State.AVAILABLE, State.LOCKED_FOR_BROWSE): ("M540,358 C560,400 570,430 585,469", 592, 428),
    (State.AVAILABLE, State.DELETED): ("M585,336 C760,352 900,352 1067,336", 770, 338),
    (State.LOCKED_FOR_BROWSE, State.AVAILABLE): ("M560,472 C530,440 510,400 503,361", 478, 440),
    (State.LOCKED_FOR_BROWSE, State.DELAYED): ("M650,472 C700,380 640,230 508,148", 672, 392),
    (State.LOCKED_FOR_BROWSE, State.BROWSE_GET_UNCONFIRMED): ("M695,490 L783,490", 738, 480),
    (State.LOCKED_FOR_BROWSE, State.DELETED): ("M640,472 C740,400 980,400 1075,361", 800, 408),
    (State.GET_UNCONFIRMED, State.AVAILABLE): ("M790,218 C740,290 660,320 588,326", 730, 300),
    (State.GET_UNCONFIRMED, State.DELAYED): ("M745,180 C680,150 600,135 508,132", 620, 150),
    (State.GET_UNCONFIRMED, State.GET_UNCONFIRMED): ("M860,162 C850,110 930,110 900,159", 890, 112),
    (State.GET_UNCONFIRMED, State.DELETED): ("M915,200 C1000,220 1060,250 1098,299", 1030, 208),
    (State.BROWSE_GET_UNCONFIRMED, State.LOCKED_FOR_BROWSE): ("M785,512 L698,512", 738, 530),
    (State.BROWSE_GET_UNCONFIRMED, State.DELETED): ("M960,472 C1020,440 1070,400 1100,361", 1030, 462),
}

MOST_WORDS = 3


def edges() -> dict[tuple[State, State], list[Event]]:
    """Every (from, to) that some cell has, with its events."""
    found: dict[tuple[State, State], list[Event]] = {}
    for state, holder in rows():
        for event in Event:
            what = CELLS[cell_index(state, holder, event)]
            if isinstance(what, Move):
                for to in _targets(what):
                    events = found.setdefault((state, to), [])
                    if event not in events:
                        events.append(event)
    return found


def _targets(move: Move) -> tuple[State, ...]:
    return (State.AVAILABLE, State.DELAYED) if move.to == READY else (State(move.to),)


def _label(events: list[Event]) -> str:
    named = [words(event.name) for event in sorted(events)]
    return ", ".join(named[:MOST_WORDS]) + (", …" if len(named) > MOST_WORDS else "")


def _svg_lines() -> Iterator[str]:
    yield (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1220 650" role="img" '
        'aria-label="States of an entry and the events that lead from one to another">'
    )
    yield (
        "<style>"
        "text{font:13px system-ui,sans-serif;fill:#1b2733;text-anchor:middle}"
        ".state{font-size:15px;font-weight:600}.free{fill:#e7f2ec;stroke:#2f7d5b}"
        ".held{fill:#fdf1dd;stroke:#b3741b}.end{fill:#eceff3;stroke:#5b6878}"
        "rect{stroke-width:1.6}path{fill:none;stroke:#67788a;stroke-width:1.3;marker-end:url(#tip)}"
        ".halo{paint-order:stroke;stroke:#fff;stroke-width:4px}"
        "@media(prefers-color-scheme:dark){text{fill:#dce4ec}.state{fill:#10202c}.halo{stroke:#131416}}"
        "</style>"
    )
    yield (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" style="fill:#67788a;stroke:none;marker-end:none"/>'
        "</marker></defs>"
    )
    drawn = edges()
    for pair in drawn:
        yield f'<path d="{PATHS[pair][0]}"/>'
    for state, box in BOXES.items():
        yield from _box(state, box)
    for pair, events in drawn.items():
        _, x, y = PATHS[pair]
        yield f'<text class="halo" x="{x}" y="{y}">{escape(_label(events))}</text>'
    yield "</svg>"


def _box(state: State, box: Box) -> Iterator[str]:
    holders = [holder for s, holder in rows() if s == state]
    held = HolderKind.NONE not in holders
    kind = "end" if state in (State.START, State.DELETED) else "held" if held else "free"
    holders_text = ", ".join(words(holder.name) for holder in holders) if held else "nobody holds it"
    left, top = box.x - box.width // 2, box.y - box.height // 2
    yield (
        f'<rect class="{kind}" x="{left}" y="{top}" width="{box.width}" height="{box.height}" rx="10">'
        f"<title>{escape(holders_text)}</title></rect>"
    )
    name = words(state.name)
    yield f'<text class="state" x="{box.x}" y="{box.y + (0 if held else 5)}">{name}</text>'
    if held:
        count = f"{len(holders)} kinds of holder" if len(holders) > 1 else words(holders[0].name)
        yield f'<text style="fill:#10202c" x="{box.x}" y="{box.y + 18}">{count}</text>'


def picture() -> str:
    return "\n".join(_svg_lines()) + "\n"


def main() -> None:
    LISTING.write_text(listing(), encoding="utf-8")
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()

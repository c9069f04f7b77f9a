"""The flow picture: bands from producers through queues to what became of the messages, as wide as they are
many."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

from postroom.spark.report.data import CATEGORY_OF_OUTCOME, Flow
from postroom.spark.report.style import CATEGORY_COLORS
from postroom.spark.report.svg import WIDTH, Box, Picture, clipped, count, n, rect, text

NODE_WIDTH: Final = 12.0
SIDE_NAME: Final = 14
QUEUE_NAME: Final = 22
"""Characters shown of a name."""
NODE_GAP: Final = 20.0
SIDE: Final = 150.0
"""Room for names at the left and the right."""
MIN_BAND: Final = 1.5
MAX_NODES_A_LAYER: Final = 12
"""More queues or producers than this are drawn as one node "others"."""
MAX_QUEUE_LAYERS: Final = 4
HEIGHT: Final = 420.0
TOP: Final = 26.0


@dataclass(slots=True)
class Node:
    """A producer, a queue or an end, and where it is drawn."""

    name: str
    kind: str
    layer: int
    size_in: int = 0
    size_out: int = 0
    box: Box = field(default_factory=lambda: Box(0, 0, 0, 0))

    @property
    def size(self) -> int:
        return max(self.size_in, self.size_out)


Key = tuple[str, str]
"""(kind, name): a queue may be called like an outcome."""


def sankey(flows: Sequence[Flow]) -> Picture:
    """The picture of all flows; bands are coloured by what became of the messages."""
    bands = _merge_small(_bands(flows))
    nodes = _nodes(bands)
    layers: dict[int, list[Node]] = defaultdict(list)
    for node in sorted(nodes.values(), key=lambda node: -node.size):
        layers[node.layer].append(node)
    rooms = (
        (HEIGHT - NODE_GAP * (len(some) - 1)) / max(1, sum(node.size for node in some))
        for some in layers.values()
    )
    scale = max(min(rooms), 1e-9)  # height of one message, so that the fullest layer fits
    _place(layers, nodes, bands, scale)
    drawn = [_band(nodes, band, ends, scale) for band, ends in _slots(nodes, bands, scale)]
    drawn += [_node(node, max(layers)) for node in nodes.values()]
    height = max(node.box.y + node.box.height for node in nodes.values()) + 14
    return Picture("Flow of messages between producers, queues and outcomes", WIDTH, height, "".join(drawn))


Band = tuple[Key, Key, str, int]


def _bands(flows: Sequence[Flow]) -> list[Band]:
    sums: dict[tuple[Key, Key, str], int] = defaultdict(int)
    for flow in flows:
        source: Key = ("producer" if flow.kind == "put" else "queue", flow.source)
        if flow.kind == "end":
            category = CATEGORY_OF_OUTCOME[flow.target]
            target: Key = ("end", category)
            color = CATEGORY_COLORS[category]
        else:
            target = ("queue", flow.target)
            color = (
                "flow" if flow.kind == "put" else CATEGORY_COLORS[MOVE_CATEGORY.get(flow.kind, "moved on")]
            )
        if source != target:
            sums[source, target, color] += flow.entries
    return [(source, target, color, entries) for (source, target, color), entries in sums.items()]


MOVE_CATEGORY: Final = {"dead_letter": "dead-lettered"}


def _merge_small(bands: list[Band]) -> list[Band]:
    """The smallest producers and queues beyond what a picture can show, put together."""
    sizes: dict[Key, int] = defaultdict(int)
    for source, target, _, entries in bands:
        sizes[source] += entries
        sizes[target] += entries
    renamed: dict[Key, Key] = {}
    for kind in ("producer", "queue"):
        keys = sorted((key for key in sizes if key[0] == kind), key=lambda key: -sizes[key])
        if len(keys) > MAX_NODES_A_LAYER:
            for key in keys[MAX_NODES_A_LAYER - 1 :]:
                renamed[key] = (kind, f"{len(keys) - MAX_NODES_A_LAYER + 1} others")
    sums: dict[tuple[Key, Key, str], int] = defaultdict(int)
    for source, target, color, entries in bands:
        a, b = renamed.get(source, source), renamed.get(target, target)
        if a != b:
            sums[a, b, color] += entries
    return [(a, b, color, entries) for (a, b, color), entries in sums.items()]


def _nodes(bands: list[Band]) -> dict[Key, Node]:
    nodes: dict[Key, Node] = {}
    for source, target, _, entries in bands:
        for key in (source, target):
            nodes.setdefault(key, Node(key[1], key[0], 0))
        nodes[source].size_out += entries
        nodes[target].size_in += entries
    last = _set_queue_layers(bands, nodes)
    for node in nodes.values():
        if node.kind == "end":
            node.layer = last
    return nodes


def _set_queue_layers(bands: list[Band], nodes: dict[Key, Node]) -> int:
    """Queues one layer behind what feeds them most; circles are cut after a few rounds. Returns the last
    layer."""
    sizes = {(a, b): entries for a, b, _, entries in bands if a[0] == b[0] == "queue"}
    moves = [(a, b) for (a, b), entries in sizes.items() if entries >= sizes.get((b, a), 0)]
    queues = [key for key in nodes if key[0] == "queue"]
    for key in queues:
        nodes[key].layer = 1
    for _ in range(MAX_QUEUE_LAYERS - 1):
        for a, b in moves:
            if nodes[b].layer <= nodes[a].layer < MAX_QUEUE_LAYERS:
                nodes[b].layer = nodes[a].layer + 1
    return max((nodes[key].layer for key in queues), default=0) + 1


def _place(layers: dict[int, list[Node]], nodes: dict[Key, Node], bands: list[Band], scale: float) -> None:
    """Layer by layer from the left: each node at the height of what feeds it, as far as there is room."""
    first, last = min(layers), max(layers)
    step = (WIDTH - 2 * SIDE - NODE_WIDTH) / max(1, last - first)
    for layer in sorted(layers):
        heights = {id(node): max(node.size * scale, MIN_BAND * 2) for node in layers[layer]}
        wanted = {id(node): _wanted(node, nodes, bands) - heights[id(node)] / 2 for node in layers[layer]}
        if layer > first:
            layers[layer].sort(key=lambda node: wanted[id(node)] + heights[id(node)] / 2)
        room = sum(heights.values()) + NODE_GAP * (len(heights) - 1)
        y = TOP
        for node in layers[layer]:
            y = max(y, min(wanted[id(node)], TOP + HEIGHT - room))
            height = heights[id(node)]
            node.box = Box(SIDE + (layer - first) * step, y, NODE_WIDTH, height)
            y += height + NODE_GAP
            room -= height + NODE_GAP


def _wanted(node: Node, nodes: dict[Key, Node], bands: list[Band]) -> float:
    """The height at which what feeds a node lies on average; the top for what nothing to its left feeds."""
    weight, sum_y = 0, 0.0
    for source, target, _, entries in bands:
        if nodes[target] is node and nodes[source].layer < node.layer:
            weight += entries
            sum_y += entries * (nodes[source].box.y + nodes[source].box.height / 2)
    return sum_y / weight if weight else 0.0


def _slots(nodes: dict[Key, Node], bands: list[Band], scale: float) -> list[tuple[Band, tuple[float, float]]]:
    """Where each band leaves its source and reaches its target: in the order of the other side, so that few
    cross."""
    leaves: dict[int, float] = {}
    reaches: dict[int, float] = {}
    used: dict[tuple[str, Key], float] = defaultdict(float)
    for index in sorted(range(len(bands)), key=lambda i: nodes[bands[i][1]].box.y):
        source, width = bands[index][0], _width(bands[index], scale)
        leaves[index] = nodes[source].box.y + used["out", source] + width / 2
        used["out", source] += width
    for index in sorted(range(len(bands)), key=lambda i: nodes[bands[i][0]].box.y):
        target, width = bands[index][1], _width(bands[index], scale)
        reaches[index] = nodes[target].box.y + used["in", target] + width / 2
        used["in", target] += width
    return [(band, (leaves[index], reaches[index])) for index, band in enumerate(bands)]


def _width(band: Band, scale: float) -> float:
    return max(band[3] * scale, MIN_BAND)


def _band(nodes: dict[Key, Node], band: Band, ends: tuple[float, float], scale: float) -> str:
    """A ribbon between two curves: a thick stroke would bulge where it bends."""
    source, target, color, entries = band
    x1, x2 = nodes[source].box.x + NODE_WIDTH, nodes[target].box.x
    half = _width(band, scale) / 2
    bend = max(abs(x2 - x1) / 2, 60)
    a, b, c = n(x1 + bend), n(x2 - bend), n(x2)
    (up1, up2), (low1, low2) = ((n(y - half) for y in ends), (n(y + half) for y in ends))
    there = f"M{n(x1)} {up1}C{a} {up1} {b} {up2} {c} {up2}"
    back = f"V{low2}C{b} {low2} {a} {low1} {n(x1)} {low1}Z"
    title = escape(f"{source[1]} → {target[1]}: {entries:,}")
    return f'<path d="{there}{back}" class="band" style="fill:var(--{color})"><title>{title}</title></path>'


def _node(node: Node, last: int) -> str:
    middle = node.box.y + node.box.height / 2 + 4
    title = f"{node.name}: {node.size:,}"
    color = CATEGORY_COLORS[node.name] if node.kind == "end" else "node"
    label = f"{clipped(node.name, SIDE_NAME if node.layer == 0 else QUEUE_NAME)}  {count(node.size)}"
    if node.layer == 0:
        words = text(node.box.x - 8, middle, label, "end")
    elif node.layer == last:
        words = text(node.box.x + NODE_WIDTH + 8, middle, label)
    else:
        words = text(node.box.x + NODE_WIDTH / 2, node.box.y - 5, label, "middle")
    return rect(node.box, color, title) + words

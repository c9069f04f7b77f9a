"""Parts that we wrote ourselves against the libraries that could stand in their place: processor time.

``python -m bench.own_parts [portal|http|selectors]``: the libraries are needed beside Postroom's own, as by
``uv run --with anyio --with httpx --with urllib3 --with lark python -m bench.own_parts``. What was decided
by these figures stands in docs/explanation/own-parts.md.
"""

from __future__ import annotations

import argparse
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from multiprocessing import get_context
from typing import Any, Final

from postroom.client.sync.portal import Portal
from postroom.model.selector import expressions as e
from postroom.model.selector.errors import SelectorInvalid
from postroom.model.selector.like import Pattern
from postroom.model.selector.parser import Parser
from postroom.spark.places.http_client import HttpClient

BULK_BYTES: Final = 256 << 20
PIECE_BYTES: Final = 1 << 20
ROUNDS: Final = 5


def best_us(once: Callable[[], object], calls: int) -> float:
    """Processor time of one call: of some rounds the quickest."""
    took = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(calls):
            once()
        took.append(time.process_time() - began)
    return min(took) / calls * 1e6


def show(what: str, figures: dict[str, float], unit: str) -> None:
    told = ", ".join(f"{name} {figure:,.1f}" for name, figure in figures.items())
    print(f"{what:28} {told} {unit}")


# --- the thread behind the blocking client --------------------------------------------------------


def portal() -> None:
    """One call from a thread into the loop of another, which returns at once."""
    from anyio.from_thread import start_blocking_portal

    async def nothing() -> None:
        return None

    ours = Portal()
    try:
        figures = {"ours": best_us(lambda: ours.call(nothing()), 5_000)}
    finally:
        ours.stop()
    with start_blocking_portal() as theirs:
        figures["anyio"] = best_us(lambda: theirs.call(nothing), 5_000)
    show("a call", figures, "µs")


# --- the client of readers ------------------------------------------------------------------------


def _serve(made: Any) -> None:
    """Answers each request on a connection with as many bytes as its path says: no server's cost counts."""
    bulk = memoryview(bytes(BULK_BYTES))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made.send(listener.getsockname()[1])
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_answer, args=(connection, bulk), daemon=True).start()


def _answer(connection: socket.socket, bulk: memoryview) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection, connection.makefile("rb") as requests:
        while line := requests.readline():
            while requests.readline().strip():
                pass
            size = int(line.split()[1].strip(b"/"))
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + bulk[:size])


@contextmanager
def _server() -> Iterator[str]:
    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_serve, args=(there,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}"
    finally:
        process.terminate()
        process.join()


def http() -> None:
    """Small answers one after the other on a kept connection; a large one."""
    import httpx
    import urllib3

    with _server() as url, httpx.Client() as one, urllib3.PoolManager(retries=False) as pool:
        ours = HttpClient(url, "")

        def by_httpx(out: BytesIO) -> None:
            with one.stream("GET", f"{url}/{BULK_BYTES}") as answer:
                for piece in answer.iter_raw(PIECE_BYTES):
                    out.write(piece)

        def by_urllib3(out: BytesIO) -> None:
            answer = pool.request("GET", f"{url}/{BULK_BYTES}", preload_content=False)
            for piece in answer.stream(PIECE_BYTES):
                out.write(piece)
            answer.release_conn()

        small = {
            "ours": best_us(lambda: ours.body("/200"), 2_000),
            "httpx": best_us(lambda: one.get(f"{url}/200").content, 2_000),
            "urllib3": best_us(lambda: pool.request("GET", f"{url}/200").data, 2_000),
        }
        show("200 bytes", small, "µs")
        ways: dict[str, Callable[[BytesIO], None]] = {
            "ours": lambda out: ours.download(f"/{BULK_BYTES}", out),
            "httpx": by_httpx,
            "urllib3": by_urllib3,
        }
        show("256 MiB", {name: best_us(partial(_bulk, way), 1) / 1e3 for name, way in ways.items()}, "ms")


def _bulk(way: Callable[[BytesIO], None]) -> None:
    out = BytesIO()
    way(out)
    assert out.tell() == BULK_BYTES


# --- selectors ------------------------------------------------------------------------------------

GRAMMAR: Final = r"""
?start: or
?or: and ("OR"i and)* -> either
?and: not ("AND"i not)* -> both
?not: "NOT"i not -> negated
    | comparison
?comparison: sum
    | sum SIGN sum -> compared
    | sum "BETWEEN"i sum "AND"i sum -> between
    | sum "NOT"i "BETWEEN"i sum "AND"i sum -> not_between
    | name "IN"i "(" STRING ("," STRING)* ")" -> listed
    | name "NOT"i "IN"i "(" STRING ("," STRING)* ")" -> not_listed
    | name "LIKE"i STRING ["ESCAPE"i STRING] -> like
    | name "NOT"i "LIKE"i STRING ["ESCAPE"i STRING] -> not_like
    | name "IS"i "NULL"i -> null
    | name "IS"i "NOT"i "NULL"i -> not_null
?sum: product (ADDING product)* -> chain
?product: signed (MULTIPLYING signed)* -> chain
?signed: "-" signed -> negative
    | "+" signed
    | primary
?primary: name
    | NUMBER -> number
    | STRING -> string
    | "TRUE"i -> true
    | "FALSE"i -> false
    | "(" or ")"
name: NAME
SIGN: "=" | "<>" | "<=" | ">=" | "<" | ">"
ADDING: "+" | "-"
MULTIPLYING: "*" | "/"
NAME: /[A-Za-z_$][A-Za-z0-9_$.]*/
NUMBER: /[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?/
STRING: /'([^']|'')*'/
%ignore /[ \t\f\r\n]+/
"""
"""The language but for identifiers beyond ASCII and Java's forms of numbers, which cost Lark no time."""

SIGNS: Final = {
    "=": e.EQUAL,
    "<>": e.UNEQUAL,
    "<": e.LESS,
    "<=": e.LESS_OR_EQUAL,
    ">": e.GREATER,
    ">=": e.GREATER_OR_EQUAL,
}
SELECTORS: Final = (
    "color = 'red'",
    "JMSPriority > 6 AND region IN ('eu', 'us', 'asia') AND weight * 2 + 1 <= 100.5",
    "(kind LIKE 'order\\_%' ESCAPE '\\' OR kind IS NULL) AND NOT (price BETWEEN 10 AND 20 OR urgent = TRUE)",
    " OR ".join(f"id = {number}" for number in range(200)),
)
MISTAKES: Final = (
    "color = 'red",
    "a = 1 AND",
    "a > 'b'",
    "price BETWEEN 10 OR 20",
    "x IN (1, 2)",
    "a + 'b' > 3",
    "a = 1 b = 2",
)


def text_of(token: str) -> str:
    return token[1:-1].replace("''", "'")


class Tree:
    """What stands for each rule of the grammar: the same expressions as ours."""

    def name(self, token: str) -> e.Expression:
        return e.Identifier(str(token))

    def number(self, token: str) -> e.Expression:
        return e.Literal(e.NUMBER, float(token) if set(token) & set(".eE") else int(token))

    def string(self, token: str) -> e.Expression:
        return e.Literal(e.STRING, text_of(token))

    def true(self) -> e.Expression:
        return e.Literal(e.BOOLEAN, True)

    def false(self) -> e.Expression:
        return e.Literal(e.BOOLEAN, False)

    def either(self, *parts: e.Expression) -> e.Expression:
        return e.Or(list(parts)) if len(parts) > 1 else parts[0]

    def both(self, *parts: e.Expression) -> e.Expression:
        return e.And(list(parts)) if len(parts) > 1 else parts[0]

    def negated(self, part: e.Expression) -> e.Expression:
        return e.Not(part)

    def negative(self, part: e.Expression) -> e.Expression:
        return e.Negative(part)

    def compared(self, left: e.Expression, sign: str, right: e.Expression) -> e.Expression:
        return e.Compare(SIGNS[str(sign)], left, right)

    def between(self, what: e.Expression, low: e.Expression, high: e.Expression) -> e.Expression:
        return e.Between(what, low, high)

    def not_between(self, what: e.Expression, low: e.Expression, high: e.Expression) -> e.Expression:
        return e.Not(e.Between(what, low, high))

    def listed(self, name: e.Identifier, *strings: str) -> e.Expression:
        return e.In(name, [text_of(one) for one in strings])

    def not_listed(self, name: e.Identifier, *strings: str) -> e.Expression:
        return e.Not(e.In(name, [text_of(one) for one in strings]))

    def like(self, name: e.Identifier, pattern: str, escape: str | None) -> e.Expression:
        return e.Like(name, Pattern(text_of(pattern), text_of(escape) if escape else ""))

    def not_like(self, name: e.Identifier, pattern: str, escape: str | None) -> e.Expression:
        return e.Not(e.Like(name, Pattern(text_of(pattern), text_of(escape) if escape else "")))

    def null(self, name: e.Identifier) -> e.Expression:
        return e.IsNull(name)

    def not_null(self, name: e.Identifier) -> e.Expression:
        return e.Not(e.IsNull(name))

    def chain(self, first: e.Expression, *rest: Any) -> e.Expression:
        return e.Arithmetic(first, list(map(str, rest[::2])), list(rest[1::2])) if rest else first


def _lark() -> Callable[[str], object]:
    """A parser by that grammar."""
    from lark import Lark, Transformer, v_args

    rules = {name: rule for name, rule in vars(Tree).items() if not name.startswith("_")}
    tree = v_args(inline=True)(type("LarkTree", (Transformer,), rules))
    parse: Callable[[str], object] = Lark(GRAMMAR, parser="lalr", transformer=tree()).parse
    return parse


def _by_ours(text: str) -> object:
    return Parser(text).parse()


def selectors() -> None:
    """One selector parsed, without the cache of those seen before; and what is said of mistakes."""
    from lark.exceptions import LarkError

    by_lark = _lark()
    for text in SELECTORS:
        calls = max(20, 40_000 // len(text))
        figures = {
            "ours": best_us(partial(_by_ours, text), calls),
            "lark": best_us(partial(by_lark, text), calls),
        }
        show(text if len(text) < 28 else text[:24] + " …", figures, "µs")
    for text in MISTAKES:
        print(f"\n{text}")
        for name, parse in (("ours", _by_ours), ("lark", by_lark)):
            try:
                parse(text)
                print(f"  {name}: (no error)")
            except (SelectorInvalid, LarkError) as error:
                print(f"  {name}: {' '.join(str(error).split())[:200]}")


PARTS: Final = {"portal": portal, "http": http, "selectors": selectors}


def main() -> None:
    command = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("part", nargs="*", choices=[*PARTS, []], help="default: all")
    for part in command.parse_args().part or PARTS:
        PARTS[part]()


if __name__ == "__main__":
    main()

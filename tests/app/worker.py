"""A program that handles orders: says which one it begins, and ends it as it is told on standard input."""

from __future__ import annotations

import asyncio
import os
import sys

import msgspec

from postroom.app import App

app = App(os.environ["POSTROOM_URL"])


class Order(msgspec.Struct):
    id: int


@app.subscriber("orders", publish_to="invoices", prefetch=10)
def handle(order: Order) -> str:
    print("begun", order.id, flush=True)
    return f"invoice {order.id} {sys.stdin.readline().strip()}"


@app.subscriber("endless")
async def never_ends(order: Order) -> None:
    print("begun", order.id, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    app.run()

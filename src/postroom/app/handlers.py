"""Handlers: what a function that takes messages is like, found out as it is decorated."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, get_type_hints

from postroom.app.bodies import Decoder, decoder_for
from postroom.client import Message

__all__ = ["Handler"]

EXPECTED: Final = "async def handle(body: SomeType) or async def handle(body: SomeType, message: Message)"
POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Handler:
    """A function, and how it is called with a message: its body first, the message itself if it asks for it.

    Raises TypeError, which says what to do, for a function that can't be called so.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = getattr(function, "__qualname__", repr(function))
        self._function = function
        self._is_async = is_async(function)
        body, *others = self._parameters(function)
        kinds = self._kinds(function, [body, *others])
        self._wants_message = bool(others)
        if others and kinds[others[0].name] is not Message:
            raise TypeError(
                f"the second parameter of {self.name}, {others[0].name}, is the message itself:"
                f" annotate it with postroom.app.Message. A handler is {EXPECTED}"
            )
        self._decode: Decoder = self._decoder(body.name, kinds[body.name])

    def _parameters(self, function: Callable[..., Any]) -> list[inspect.Parameter]:
        """The one or two that a message is given to."""
        required = [
            parameter
            for parameter in inspect.signature(function).parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        ]
        if len(required) not in (1, 2) or any(each.kind not in POSITIONAL for each in required):
            raise TypeError(
                f"{self.name}{inspect.signature(function)} can't take messages: a handler is {EXPECTED}"
            )
        return required

    def _kinds(self, function: Callable[..., Any], wanted: list[inspect.Parameter]) -> dict[str, Any]:
        """The annotations, evaluated."""
        for parameter in wanted:
            if parameter.annotation is parameter.empty:
                raise TypeError(
                    f"the parameter {parameter.name} of {self.name} has no annotation, which says what its"
                    f" messages are: a handler is {EXPECTED}"
                )
        try:
            return get_type_hints(called(function), include_extras=True)
        except NameError as error:
            raise TypeError(
                f"an annotation of {self.name} can't be evaluated: {error}."
                " Define the type in the module, above the handler"
            ) from error

    def _decoder(self, name: str, kind: Any) -> Decoder:
        try:
            return decoder_for(kind)
        except TypeError as error:
            raise TypeError(f"the parameter {name} of {self.name}: {error}") from error

    def arguments(self, message: Message) -> tuple[object, ...]:
        """What the function is called with; UndecodableError for a body that isn't what it takes."""
        body = self._decode(message)
        return (body, message) if self._wants_message else (body,)

    async def call(self, arguments: tuple[object, ...]) -> object:
        """What the function returns: a coroutine function in the loop, any other in a thread of its own."""
        if self._is_async:
            return await self._function(*arguments)
        return await in_thread(partial(self._function, *arguments), self.name)


def called(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself of an object that can be called, where the annotations are."""
    while isinstance(function, partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine."""
    return inspect.iscoroutinefunction(called(function))


async def in_thread(call: Callable[[], object], name: str) -> object:
    """What ``call`` returns, in a thread that nothing waits for when the process ends."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[object] = loop.create_future()
    context = contextvars.copy_context()

    def set_outcome(result: object, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def run() -> None:
        result, failure = None, None
        try:
            result = context.run(call)
        except BaseException as error:
            # A future doesn't take it, and a loop would end with it.
            failure = RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
        with suppress(RuntimeError):  # the loop is closed: nobody wants to know any more
            loop.call_soon_threadsafe(set_outcome, result, failure)

    threading.Thread(target=run, name=f"postroom handler {name}", daemon=True).start()
    return await done

"""Actions of pages: each says what it will do, to how many messages, before it does it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from starlette.responses import Response

from postroom.server.console.visit import Visit
from postroom.server.http.errors import Refusal


@dataclass(frozen=True, slots=True)
class Field:
    """One input of a form."""

    name: str
    label: str
    kind: str = "text"
    """``text``, ``number``, ``textarea``, ``select``, ``checkbox``, ``password`` or ``hidden``."""
    value: str = ""
    """As it is to begin with; of a checkbox "true" or ""."""
    hint: str = ""
    options: Sequence[str] = ()
    """Of a select all there are, of a text what is proposed."""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What is shown before an action is carried out."""

    title: str
    """As a question or what is to be given: "Purge orders?"."""
    effects: Sequence[str]
    """What will be done, with numbers counted now; a sentence each."""
    fields: Sequence[Field] = ()
    possible: bool = True
    """False: there is nothing that it could be done to, and ``effects`` says so."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What has been done, and the page that says so."""

    text: str
    location: str


class Action(ABC):
    """One, of the pages that name it. It has no state: one object serves all requests."""

    name: ClassVar[str] = ""
    """As ``?act=`` has it."""
    label: ClassVar[str]
    """On its buttons."""
    danger: ClassVar[bool]
    """Whether something is lost by it."""

    def __init_subclass__(cls, name: str = "", label: str = "", danger: bool = False) -> None:
        cls.name, cls.label, cls.danger = name or cls.name, label, danger

    @abstractmethod
    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        """What it would do to the page's thing. Raises `Refusal` where it can't be."""

    @abstractmethod
    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        """Do it. Raises `Refusal`, which is shown above the form."""


async def shown_confirmation(
    visit: Visit, action: Action, form: Mapping[str, str] | None = None, refusal: Refusal | None = None
) -> Response:
    """The form of an action, as a dialog of the page or a page of its own; after a refusal with what was
    given."""
    confirmation = await action.confirmation(visit, visit.name)
    template = "confirm_dialog.html" if visit.is_fragment else "confirm.html"
    values = {each.name: each.value for each in confirmation.fields}
    if form is not None:
        values = {name: form.get(name, "") for name in values}
    return visit.page(
        template,
        200 if refusal is None else refusal.status,
        action=action,
        confirmation=confirmation,
        values=values,
        problem="" if refusal is None else str(refusal.body["what"]),
    )

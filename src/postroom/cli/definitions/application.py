"""Carrying a plan out, step by step, by requests to the management node."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from postroom.cli.definitions.kinds import CHANNEL, QUEUE, SUBSCRIBED, SUBSCRIPTION, TOPIC, Kind
from postroom.cli.definitions.plan import BLOCKED, CHANGE, CREATE, Plan, Step, messages_of
from postroom.client import ConnectionLostException, JMSException, ManagementClient
from postroom.manager.kernel.name_rules import SUBSCRIPTION_MARK

DONE: Final = "done"
FAILED: Final = "failed"
NOT_DONE: Final = "not done"
"""Because it is blocked, or a step before it has failed."""


@dataclass(frozen=True)
class Result:
    """How a step went."""

    step: Step
    state: str
    why: str = ""


def carry_out(management: ManagementClient, plan: Plan, force: bool, keep_going: bool) -> Iterator[Result]:
    """The results, each as soon as it is there. After a failure nothing more is done, unless ``keep_going``;
    when the connection has gone, never."""
    has_ended = False
    for step in plan.steps:
        if step.action == BLOCKED or has_ended:
            yield Result(step, NOT_DONE, step.why if step.action == BLOCKED else "")
            continue
        try:
            _carry_out(management, step, force)
        except JMSException as error:
            has_ended = not keep_going or isinstance(error, ConnectionLostException)
            yield Result(step, FAILED, str(error))
        else:
            yield Result(step, DONE, step.why)


def _carry_out(management: ManagementClient, step: Step, force: bool) -> None:
    kind = step.kind
    if step.action == CREATE:
        management.create(kind.entity_type, step.name, _attributes(kind, step))
    elif step.action == CHANGE:
        management.update(kind.entity_type, step.name, _changes(management, step))
    else:
        _delete(management, kind, step.name, force)


def _attributes(kind: Kind, step: Step) -> Mapping[str, Any]:
    if kind is CHANNEL:
        return {"channel_type" if key == "type" else key: value for key, value in step.settings.items()}
    if kind is SUBSCRIPTION:
        topic, _, rest = step.name.partition(SUBSCRIPTION_MARK)
        client = step.settings.get("client", "")
        name = rest.removeprefix(f"{client}/") if client else rest
        made_with = {**SUBSCRIBED, **step.settings}
        return {**made_with, "topic": topic, "subscription": name}
    return step.settings


def _changes(management: ManagementClient, step: Step) -> Mapping[str, Any]:
    """What is set; where attaching has made the thing and nothing differs, one setting as it is: it stays
    from then on."""
    changes = {key: value for key, value in step.settings.items() if key != "auto_created"}
    if changes or "auto_created" not in step.settings:
        return changes
    return {"max_messages": management.read(step.kind.entity_type, step.name)["max_messages"]}


def _delete(management: ManagementClient, kind: Kind, name: str, force: bool) -> None:
    """Unless it is forced, not what has got messages or consumers since the plan was made."""
    if force:
        forced = {"force": True} if kind in (QUEUE, TOPIC, SUBSCRIPTION) else None
        management.delete(kind.entity_type, name, forced)
        return
    if kind in (TOPIC, SUBSCRIPTION):
        messages = messages_of(management.read(kind.entity_type, name))
        if messages:
            raise JMSException(f"{name!r} holds {messages:,} messages by now: --force deletes it with them")
    options = {"if-empty": True, "if-unused": True} if kind is QUEUE else {"if-unused": True}
    management.delete(kind.entity_type, name, options if kind in (QUEUE, TOPIC) else None)

"""One connection for each container, where a client asks for it.

Source: AMQP Enforcing Connection Uniqueness 1.0. A client that desires `sole-connection-for-container` says
in its open's properties what is to be done about two connections of its container: `refuse-connection` (the
default) refuses the later one, `close-existing` closes the earlier one. Detection is *strong*, and the answer
says so: a connection that is the sole one of its container is so towards later ones that don't ask, too; and
one that asks counts those that are there and haven't.

Where both have asked, the policy of the one that is there holds: it was promised first. A connection is only
closed for another one of the same user: otherwise who knows a container id could end what others do. That one
is refused, then.
"""

from collections.abc import Iterable
from typing import Final

from postroom.amqp.encoding.composite import Error
from postroom.amqp.encoding.types import Symbol, UInt
from postroom.amqp.errors import INVALID_FIELD, RESOURCE_LOCKED
from postroom.amqp.extensions import ESTABLISHMENT_FAILED, SOLE_CONNECTION
from postroom.amqp.frames.performatives import Open
from postroom.server.kernel.connection_state import ConnectionState, EnforcementPolicy
from postroom.server.links.registry import registry_of

ENFORCEMENT_POLICY: Final = "sole-connection-enforcement-policy"
DETECTION_POLICY: Final = "sole-connection-detection-policy"
ENFORCEMENT: Final = "sole-connection-enforcement"
STRONG: Final = UInt(0)


class PolicyInvalid(ValueError):
    """The policy that a client asks for is none."""


def wanted_policy(open: Open) -> EnforcementPolicy | None:
    """What the client asks for; None: it doesn't ask to be the only one. Raises `PolicyInvalid`."""
    if SOLE_CONNECTION not in open.desired_capabilities:
        return None
    value = (open.properties or {}).get(ENFORCEMENT_POLICY, EnforcementPolicy.REFUSE_CONNECTION)
    if not isinstance(value, int) or isinstance(value, bool) or value not in list(EnforcementPolicy):
        names = " or ".join(
            f"{each.value} ({each.name.lower().replace('_', '-')})" for each in EnforcementPolicy
        )
        raise PolicyInvalid(f"{ENFORCEMENT_POLICY} is {value!r}; it must be {names}")
    return EnforcementPolicy(value)


def policy_in_force(
    existing: Iterable[tuple[EnforcementPolicy | None, str]], wanted: EnforcementPolicy | None, user: str
) -> EnforcementPolicy | None:
    """What to do about a connection of ``user`` beside those (policy and user of each); None: nothing."""
    there = list(existing)
    if not there:
        return None
    promised = next((policy for policy, _ in there if policy is not None), wanted)
    if promised == EnforcementPolicy.CLOSE_EXISTING and any(other != user for _, other in there):
        return EnforcementPolicy.REFUSE_CONNECTION
    return promised


def admit(binding: ConnectionState, open: Open, now_us: int) -> Error | None:
    """Let ``binding`` in, which closes others where that is the policy; else the error to close it with."""
    try:
        wanted = wanted_policy(open)
    except PolicyInvalid as invalid:
        return _invalid_field(str(invalid), ENFORCEMENT_POLICY)
    others = registry_of(binding.broker).others_of(binding)
    policy = policy_in_force([(each.sole_policy, each.user) for each in others], wanted, binding.user)
    if policy == EnforcementPolicy.REFUSE_CONNECTION:
        what = f"container-id {binding.container_id!r} is in use by another connection"
        return _invalid_field(what, "container-id")
    if policy == EnforcementPolicy.CLOSE_EXISTING:
        for each in others:
            each.give_way(_give_way_error(binding), now_us)
    binding.sole_policy = wanted
    return None


def answer_properties(open: Open, admitted: bool, policy: EnforcementPolicy | None) -> dict[object, object]:
    """What the answer to ``open`` says of all this in its properties."""
    properties: dict[object, object] = {}
    if SOLE_CONNECTION in open.desired_capabilities:
        properties[Symbol(DETECTION_POLICY)] = STRONG
    if policy == EnforcementPolicy.CLOSE_EXISTING:
        properties[Symbol(ENFORCEMENT_POLICY)] = UInt(policy)
    if not admitted:
        properties[Symbol(ESTABLISHMENT_FAILED)] = True
    return properties


def _invalid_field(what: str, field: str) -> Error:
    """The way that clients of JMS expect (container ids are their client ids)."""
    return Error(INVALID_FIELD, what, {Symbol("invalid-field"): Symbol(field)})


def _give_way_error(later: ConnectionState) -> Error:
    what = (
        f"another connection of container-id {later.container_id!r} has taken its place, from {later.remote}"
    )
    return Error(RESOURCE_LOCKED, what, {Symbol(ENFORCEMENT): True})

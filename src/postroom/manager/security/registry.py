"""Users and roles coming, changing and going, as administrators have it."""

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from postroom.ledger.format.records import RecordType
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.errors import (
    DefinitionInvalid,
    LimitExceeded,
    PrincipalExists,
    PrincipalInUse,
    PrincipalNotFound,
)
from postroom.manager.security.principal_definition import ROLE, PrincipalDefinition
from postroom.manager.security.principals import Principal, Principals, principals_of
from postroom.model.rights import ADMINISTRATOR

if TYPE_CHECKING:
    from postroom.ledger.recovery.recovered import Recovered

_DEFINED: Final = int(RecordType.PRINCIPAL_DEFINED)
_DROPPED: Final = int(RecordType.PRINCIPAL_DROPPED)


def find(core: Core, name: str, kind: str) -> PrincipalDefinition:
    """The user or role of that name; raises PrincipalNotFound."""
    definition = principals_of(core).get(name)
    if definition is None or definition.kind != kind:
        raise PrincipalNotFound(f"there is no {kind} {name!r}")
    return definition


def define(core: Core, definition: PrincipalDefinition) -> None:
    """Make a user or role. Raises PrincipalExists, DefinitionInvalid, PrincipalInUse, LimitExceeded."""
    principals = principals_of(core)
    name = definition.name
    existing = principals.get(name)
    if existing is not None or name == ADMINISTRATOR:
        kind = ROLE if existing is None else existing.kind
        raise PrincipalExists(f"there is a {kind} {name!r}: users and roles share their names")
    if len(principals.by_name) >= core.options.max_principals:
        raise LimitExceeded(f"{core.options.max_principals} users and roles are the limit (max_principals)")
    _check(principals, definition)
    _put(core, Principal(core.holders.ids.take(), definition))


def alter(core: Core, definition: PrincipalDefinition) -> None:
    """Give the user or role of that name another definition. Raises PrincipalNotFound, PrincipalInUse,
    DefinitionInvalid."""
    principals = principals_of(core)
    before = _recorded(core, definition.name, definition.kind)
    if definition != before.definition:
        _check(principals, definition)
        _put(core, Principal(before.id, definition))


def drop(core: Core, name: str, kind: str) -> None:
    """Forget a user or role; whoever had the role has it no more. Raises PrincipalNotFound,
    PrincipalInUse."""
    principals = principals_of(core)
    principal = _recorded(core, name, kind)
    with_role = [each for each in principals.by_name.values() if name in each.definition.roles]
    changed: dict[str, Principal | None] = {name: None}
    for each in with_role:
        roles = tuple(role for role in each.definition.roles if role != name)
        changed[each.definition.name] = Principal(each.id, replace(each.definition, roles=roles))
    _try(principals, changed)
    for each in with_role:
        _put(core, changed[each.definition.name])
    core.ledger.record(_DROPPED, 0, 0, principal.id, 0, 0, b"")
    del principals.by_name[name]
    principals.changed()


def _recorded(core: Core, name: str, kind: str) -> Principal:
    """One that the ledger has, and so can be changed."""
    principals = principals_of(core)
    if name in principals.configured:
        raise PrincipalInUse(f"{name!r} is defined by the configuration: change it there, and reload it")
    principal = principals.by_name.get(name)
    if principal is None or principal.definition.kind != kind:
        raise PrincipalNotFound(f"there is no {kind} {name!r}")
    return principal


def _check(principals: Principals, definition: PrincipalDefinition) -> None:
    """Raise DefinitionInvalid, PrincipalInUse."""
    definition.check()
    for role in definition.roles:
        known = principals.get(role)
        if role != ADMINISTRATOR and (known is None or known.kind != ROLE):
            raise DefinitionInvalid(
                f"{definition.kind} {definition.name!r}: there is no role {role!r}", "roles"
            )
        if role == definition.name or definition.name in principals.every_role_of(role):
            what = f"role {definition.name!r} would have itself, by {role!r}"
            raise DefinitionInvalid(what, "roles")
    _try(principals, {definition.name: Principal(0, definition)})


def _try(principals: Principals, changed: "dict[str, Principal | None]") -> None:
    """Raise PrincipalInUse if nobody could administer users any more with these instead."""
    before = dict(principals.by_name)
    for name, principal in changed.items():
        if principal is None:
            del principals.by_name[name]
        else:
            principals.by_name[name] = principal
    principals.changed()
    locked_out = principals.in_force and not principals.has_administrator()
    principals.by_name.clear()
    principals.by_name.update(before)
    principals.changed()
    if locked_out:
        raise PrincipalInUse(
            f"no user would be left who may administer users: give one the role {ADMINISTRATOR!r} first"
        )


def _put(core: Core, principal: "Principal | None") -> None:
    assert principal is not None
    principals = principals_of(core)
    principals.by_name[principal.definition.name] = principal
    detail = json.dumps(principal.definition.to_ledger(), ensure_ascii=False).encode()
    core.ledger.record(_DEFINED, 0, 0, principal.id, 0, 0, detail)
    principals.changed()


def restore(core: Core, recovered: "Recovered") -> None:
    """The users and roles from before the start."""
    principals = principals_of(core)
    for id, record in recovered.principals:
        definition = PrincipalDefinition.from_record(record)
        principals.by_name[definition.name] = Principal(id, definition)
    principals.changed()

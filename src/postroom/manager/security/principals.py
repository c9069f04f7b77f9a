"""Users and roles: what the ledger has of them, what the configuration says, and what rights come of both.

A user or role that the configuration defines isn't written, and can't be changed but there. While nobody is
defined at all, everybody may do everything (`Principals.in_force`).
"""

from collections.abc import Iterable, Mapping
from typing import Final, cast, final

from mypy_extensions import i64

from postroom.manager.kernel.core import Core
from postroom.manager.security.principal_definition import ROLE, USER, PrincipalDefinition
from postroom.model.rights import ADMINISTRATOR, EVERYTHING, Grant, Right, Rights

MAX_REMEMBERED: Final = 10_000
"""Users, with roles, whose rights are kept in mind."""


@final
class Principal:
    """A user or role that the ledger has."""

    def __init__(self, id: i64, definition: PrincipalDefinition) -> None:
        self.id: i64 = id
        self.definition = definition


@final
class Principals:
    """Every user and role, and what they may do."""

    def __init__(self) -> None:
        self.by_name: dict[str, Principal] = {}
        """Those of the ledger."""
        self.configured: dict[str, PrincipalDefinition] = {}
        """Those of the configuration, which count where both have one."""
        self._more_roles: dict[str, tuple[str, ...]] = {}
        """Roles that the configuration gives, by member."""
        self._rights: dict[str, Rights] = {}
        self.version: i64 = 0
        """Counts changes."""

    @property
    def in_force(self) -> bool:
        """Whether anybody is defined: else everybody may do everything."""
        return bool(self.by_name) or bool(self.configured)

    def configure(self, definitions: Iterable[PrincipalDefinition], members: Mapping[str, list[str]]) -> None:
        """What the configuration says; ``members``: by role, beside those that name it themselves."""
        self.configured = {definition.name: definition for definition in definitions}
        more: dict[str, list[str]] = {}
        for role, names in members.items():
            for name in names:
                more.setdefault(name, []).append(role)
        self._more_roles = {name: tuple(roles) for name, roles in more.items()}
        self.changed()

    def changed(self) -> None:
        """Rights are to be found anew."""
        self._rights.clear()
        self.version += 1

    def get(self, name: str) -> PrincipalDefinition | None:
        """The definition that counts."""
        configured = self.configured.get(name)
        if configured is not None:
            return configured
        principal = self.by_name.get(name)
        return principal.definition if principal is not None else None

    def all(self) -> list[PrincipalDefinition]:
        """Those of the configuration, then those of the ledger."""
        others = [each.definition for name, each in self.by_name.items() if name not in self.configured]
        return [*self.configured.values(), *others]

    def roles_of(self, name: str) -> list[str]:
        """The roles that somebody has directly, by the own definition or by the configuration."""
        definition = self.get(name)
        own = definition.roles if definition is not None else ()
        return list(dict.fromkeys([*own, *self._more_roles.get(name, ())]))

    def every_role_of(self, name: str) -> list[str]:
        """The roles that somebody has, and those that these have; without ``name`` itself."""
        found: dict[str, None] = {}
        waiting = self.roles_of(name)
        while waiting:
            role = waiting.pop(0)
            if role not in found:
                found[role] = None
                waiting += self.roles_of(role)
        return list(found)

    def members_of(self, role: str) -> list[str]:
        """Who has a role directly."""
        names = dict.fromkeys([*(each.name for each in self.all()), *self._more_roles])
        return [name for name in names if role in self.roles_of(name)]

    def rights_of(self, user: str, roles: tuple[str, ...] = ()) -> Rights:
        """What a user may do, by every grant there is; ``roles``: that the user has beside those by name. Of
        these, names of no role count for nothing."""
        key = "\0".join([user, *roles]) if roles else user  # no name has a NUL
        known = self._rights.get(key)
        if known is None:
            if len(self._rights) >= MAX_REMEMBERED:
                self._rights.clear()
            known = self._rights[key] = Rights(self._grants_of(user, roles))
        return known

    def _is_role(self, name: str) -> bool:
        definition = self.get(name)
        return name == ADMINISTRATOR or (definition is not None and definition.kind == ROLE)

    def _grants_of(self, user: str, more_roles: tuple[str, ...]) -> list[Grant]:
        if not self.in_force:
            return list(EVERYTHING)
        own = self.get(user)
        if own is not None and (own.locked or own.kind != USER):
            return []
        grants: list[Grant] = []
        names = [user, *self.every_role_of(user)]
        for role in filter(self._is_role, more_roles):
            names += [role, *self.every_role_of(role)]
        for name in dict.fromkeys(names):
            definition = self.get(name)
            if name == ADMINISTRATOR:
                grants += EVERYTHING
            elif definition is not None:
                grants += definition.parsed_grants()
        return grants

    def has_administrator(self) -> bool:
        """Whether a user may administer users."""
        names = [each.name for each in self.all() if each.kind == USER]
        names += [name for name in self._more_roles if self.get(name) is None]
        return any(self.rights_of(name).on_queue_manager(Right.ADMINISTER_USERS) for name in names)


def principals_of(core: Core) -> Principals:
    """Those of a queue manager."""
    return cast(Principals, core.state(Principals))

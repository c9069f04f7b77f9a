"""Users, roles and acts, for those who administer them."""

from collections.abc import Iterable, Mapping
from typing import Final, final

from mypy_extensions import i64

from postroom.manager.kernel.core import Core
from postroom.manager.security import registry
from postroom.manager.security.acts import Act, record_act
from postroom.manager.security.principal_definition import PrincipalDefinition
from postroom.manager.security.principals import Principals, principals_of
from postroom.model.rights import Rights


@final
class SecurityService:
    """Who may do what, and what was done."""

    def __init__(self, core: Core) -> None:
        self._core: Final = core
        self.principals: Final[Principals] = principals_of(core)

    @property
    def in_force(self) -> bool:
        """Whether rights are asked for at all: somebody is defined."""
        return self.principals.in_force

    def rights_of(self, user: str, roles: tuple[str, ...] = ()) -> Rights:
        """What a user may do now."""
        return self.principals.rights_of(user, roles)

    def configure(self, definitions: Iterable[PrincipalDefinition], members: Mapping[str, list[str]]) -> None:
        """Take users and roles of the configuration, which aren't written; ``members``: by role."""
        self.principals.configure(definitions, members)

    def find(self, name: str, kind: str) -> PrincipalDefinition:
        """The user or role of that name; raises PrincipalNotFound."""
        return registry.find(self._core, name, kind)

    def define(self, definition: PrincipalDefinition, now_us: i64) -> None:
        """Make a user or role. Raises PrincipalExists, DefinitionInvalid, PrincipalInUse, LimitExceeded."""
        self._core.begin(now_us)
        registry.define(self._core, definition)

    def alter(self, definition: PrincipalDefinition, now_us: i64) -> None:
        """Change one. Raises PrincipalNotFound, PrincipalInUse, DefinitionInvalid."""
        self._core.begin(now_us)
        registry.alter(self._core, definition)

    def drop(self, name: str, kind: str, now_us: i64) -> None:
        """Forget one. Raises PrincipalNotFound, PrincipalInUse."""
        self._core.begin(now_us)
        registry.drop(self._core, name, kind)

    def record_act(self, act: Act, now_us: i64) -> None:
        """Write an act to the ledger."""
        self._core.begin(now_us)
        record_act(self._core, act)

"""The table of roles in the configuration file."""

from collections.abc import Mapping

from msgspec import Struct

from postroom.manager.security.principal_definition import ROLE, PrincipalDefinition
from postroom.manager.security.principals import Principals
from postroom.model.rights import ADMINISTRATOR, GrantInvalid, parse_grant
from postroom.server.configuration.values import Name, PlacedError, check_names


class RoleConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """One role: rights, and who has them. Without any user or role everybody may do everything; with one,
    nobody anything that no grant gives ([users and rights](../explanation/security.md))."""

    name: Name
    """`administrator` is there from the beginning, with every right: give it members only."""
    members: list[Name] = []
    """Users, of `[users]` or made by `postroom user`, other roles, or `anonymous`."""
    grants: list[str] = []
    """Such as `put, get on orders.#` or `inquire, metrics on queue manager`."""

    def __post_init__(self) -> None:
        for index, text in enumerate(self.grants):
            try:
                parse_grant(text)
            except GrantInvalid as error:
                raise PlacedError(("grants", index), str(error)) from error
        if self.name == ADMINISTRATOR and self.grants:
            raise PlacedError(("grants",), f"role {ADMINISTRATOR!r} has every right: give it members only")

    @property
    def defines(self) -> bool:
        """Whether it isn't there anyhow."""
        return self.name != ADMINISTRATOR

    def definition(self) -> PrincipalDefinition:
        """As the queue manager has it."""
        return PrincipalDefinition(self.name, ROLE, grants=tuple(self.grants))


def check_roles(roles: list[RoleConfig], users: Mapping[str, object]) -> None:
    """Users have rights by roles only; and no role has itself, by whatever way. Raises `PlacedError`."""
    check_names("role", [role.name for role in roles])
    principals = Principals()
    principals.configure([], {role.name: role.members for role in roles})
    for index, role in enumerate(roles):
        if role.name in users:
            raise PlacedError(("role", index, "name"), f"{role.name!r} is a user: roles need other names")
        for member in role.members:
            if member == role.name or member in principals.every_role_of(role.name):
                what = f"role {role.name!r} would have itself, by {member!r}"
                raise PlacedError(("role", index, "members"), what)
    if users and not any(role.members for role in roles):
        raise PlacedError(
            ("users",),
            f"nobody has any right: give {next(iter(users))!r} a role, as in"
            f' [[role]] name = "{ADMINISTRATOR}" members = ["{next(iter(users))}"]',
        )

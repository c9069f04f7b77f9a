"""What a user or a role is, as it is written to the ledger."""

from dataclasses import dataclass
from typing import Final

from postroom.manager.kernel.errors import DefinitionInvalid
from postroom.model.rights import Grant, GrantInvalid, parse_grant
from postroom.model.settings import restored, unusual_of

USER: Final = "user"
ROLE: Final = "role"
KINDS: Final = (USER, ROLE)
MAX_NAME_BYTES: Final = 255
MAX_DESCRIPTION_CHARS: Final = 256
MAX_GRANTS: Final = 1000
"""Of one user or role."""
MAX_ROLES: Final = 100
"""That one user or role has directly."""
MAX_VERIFIERS: Final = 4


@dataclass(frozen=True)
class PrincipalDefinition:
    """A user or a role, as it is written to the ledger."""

    name: str
    kind: str = USER
    roles: tuple[str, ...] = ()
    """Whose rights it has, too."""
    grants: tuple[str, ...] = ()
    """Its own, as `postroom.model.rights.parse_grant` reads them."""
    verifiers: tuple[str, ...] = ()
    """Ids of what is kept of the password; that itself is in no ledger."""
    locked: bool = False
    """Can't sign in."""
    description: str = ""
    """For people."""

    def check(self) -> None:
        """Raise DefinitionInvalid, naming the key."""
        size = len(self.name.encode("utf-8", "surrogatepass"))
        if not 0 < size <= MAX_NAME_BYTES or not self.name.isprintable():
            self._refuse("name", f"1 to {MAX_NAME_BYTES} bytes that can be printed")
        if self.kind not in KINDS:
            self._refuse("kind", " or ".join(KINDS))
        if len(self.roles) > MAX_ROLES:
            self._refuse("roles", f"{MAX_ROLES} at most")
        if len(self.grants) > MAX_GRANTS:
            self._refuse("grants", f"{MAX_GRANTS} at most")
        if len(self.verifiers) > (MAX_VERIFIERS if self.kind == USER else 0):
            self._refuse("verifiers", f"{MAX_VERIFIERS} at most, and none of a role")
        if len(self.description) > MAX_DESCRIPTION_CHARS:
            self._refuse("description", f"{MAX_DESCRIPTION_CHARS} characters at most")
        self.parsed_grants()

    def _refuse(self, key: str, wanted: str) -> None:
        what = f"{self.kind} {self.name!r:.300}: {key} must be {wanted}"
        raise DefinitionInvalid(what, key)

    def parsed_grants(self) -> list[Grant]:
        """Its own grants. Raises DefinitionInvalid."""
        try:
            return [parse_grant(text) for text in self.grants]
        except GrantInvalid as error:
            raise DefinitionInvalid(f"{self.kind} {self.name!r}: {error}", "grants") from error

    def to_ledger(self) -> dict[str, object]:
        """As JSON-able fields, without what is as it is by default."""
        return unusual_of(self, "kind")

    @staticmethod
    def from_record(record: dict[str, object]) -> "PrincipalDefinition":
        """The definition that `to_ledger` wrote."""
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in record.items()}
        return restored(PrincipalDefinition, values)

"""Users and roles, as the management node shows and changes them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from postroom.manager.kernel.errors import PrincipalExists
from postroom.manager.security.principal_definition import MAX_VERIFIERS, ROLE, USER, PrincipalDefinition
from postroom.model.entity_types import ROLE_TYPE, USER_TYPE
from postroom.model.rights import (
    ADMINISTRATOR,
    EVERYTHING,
    Grant,
    GrantInvalid,
    add_grants,
    make_grant,
    without_rights,
)
from postroom.server.access.access import access_of
from postroom.server.configuration.passwords import PasswordHashError, parse_hash, scheme_of
from postroom.server.management.entity_type import Columns, ListedEntityType, Operation, same_named
from postroom.server.management.request import (
    BAD_REQUEST,
    CONFLICT,
    CREATED,
    NO_CONTENT,
    OK,
    Attributes,
    Request,
    RequestError,
    Response,
)

_SETTABLE: Final[Mapping[str, type]] = {
    "roles": list,
    "grants": list,
    "locked": bool,
    "description": str,
    "verifiers": list,
}
_ADMINISTRATOR: Final = PrincipalDefinition(
    ADMINISTRATOR, ROLE, grants=tuple(map(str, EVERYTHING)), description="always there"
)


class _Principals(ListedEntityType[PrincipalDefinition]):
    """Users, or roles."""

    kind: str

    def make_columns(self) -> Columns[PrincipalDefinition]:
        principals = self.manager.security.principals
        return {
            "roles": lambda each: principals.roles_of(each.name),
            "own_roles": lambda each: list(each.roles),
            "every_role": lambda each: principals.every_role_of(each.name),
            "grants": lambda each: list(each.grants),
            "configured": lambda each: each.name in principals.configured,
            **same_named("description"),
        }

    def make_operations(self) -> Mapping[str, Operation]:
        return {
            "CREATE": self._create,
            "READ": self.read,
            "UPDATE": self._update,
            "DELETE": self._delete,
            "GRANT": self._grant,
            "REVOKE": self._revoke,
        }

    def all(self) -> Iterable[PrincipalDefinition]:
        return [each for each in self.manager.security.principals.all() if each.kind == self.kind]

    def find(self, request: Request) -> PrincipalDefinition:
        return self.manager.security.find(request.required_name(), self.kind)

    def _create(self, request: Request, now_us: int) -> Response:
        name = request.required_name()
        if self.manager.security.principals.get(name) is not None:
            raise PrincipalExists(f"{name!r} is there already: users and roles share their names")
        made = self._with_settings(PrincipalDefinition(name, self.kind), request)
        self.manager.security.define(made, now_us)
        return self._changed(made, CREATED, "created")

    def _update(self, request: Request, now_us: int) -> Response:
        return self._alter(self._with_settings(self.find(request), request), now_us)

    def _delete(self, request: Request, now_us: int) -> Response:
        self.manager.security.drop(request.required_name(), self.kind, now_us)
        access_of(self.broker).changed()
        return Response(NO_CONTENT, "deleted", {})

    def _grant(self, request: Request, now_us: int) -> Response:
        """Asks for ``rights``, a list of names, and what they are granted ``on``."""
        known = self.find(request)
        grants = add_grants(known.parsed_grants(), _grant_of(request))
        return self._alter(replace(known, grants=tuple(map(str, grants))), now_us)

    def _revoke(self, request: Request, now_us: int) -> Response:
        """As GRANT: what was granted on just that goes."""
        known, less = self.find(request), _grant_of(request)
        held = known.parsed_grants()
        if not any(each.on == less.on and each.rights & less.rights for each in held):
            what = f"{self.kind} {known.name!r} has none of these granted on {less.on!r} itself"
            raise RequestError(CONFLICT, what)
        return self._alter(replace(known, grants=tuple(map(str, without_rights(held, less)))), now_us)

    def _alter(self, changed: PrincipalDefinition, now_us: int) -> Response:
        self.manager.security.alter(changed, now_us)
        return self._changed(changed, OK, "OK")

    def _changed(self, made: PrincipalDefinition, status: int, what: str) -> Response:
        access_of(self.broker).changed()
        return Response(status, what, self.shown(made))

    def _with_settings(self, known: PrincipalDefinition, request: Request) -> PrincipalDefinition:
        settings = request.settings(self.kind, _SETTABLE)
        for key in ("roles", "grants", "verifiers"):
            if key in settings:
                settings[key] = _texts(key, settings[key])
        verifiers = settings.pop("verifiers", None)
        made = replace(known, **settings)
        if "grants" in settings:
            made = replace(made, grants=tuple(map(str, _merged(made))))
        return made if verifiers is None else self._with_verifiers(made, verifiers)

    def _with_verifiers(self, made: PrincipalDefinition, verifiers: tuple[str, ...]) -> PrincipalDefinition:
        """Kept before the ledger names them."""
        if self.kind != USER or not 0 < len(verifiers) <= MAX_VERIFIERS:
            raise RequestError(BAD_REQUEST, f"verifiers must be 1 to {MAX_VERIFIERS}, and of a user")
        for text in verifiers:
            try:
                parse_hash(text)
            except PasswordHashError as error:
                raise RequestError(BAD_REQUEST, f"verifiers: {error}") from error
        replace(made, verifiers=()).check()
        return replace(made, verifiers=access_of(self.broker).verifiers.add(verifiers))


class Users(_Principals):
    """The users of one broker, of the ledger and of the configuration."""

    type: Final = USER_TYPE
    kind = USER

    def make_columns(self) -> Columns[PrincipalDefinition]:
        return {
            **super().make_columns(),
            "every_grant": lambda each: [
                str(grant) for grant in self.manager.security.rights_of(each.name).grants
            ],
            **same_named("locked"),
            "signs_in_by": lambda each: [
                scheme_of(text) for text in access_of(self.broker).users().get(each.name, ())
            ],
            "connections": lambda each: sum(binding.user == each.name for binding in self.broker.connections),
        }


class Roles(_Principals):
    """The roles of one broker."""

    type: Final = ROLE_TYPE
    kind = ROLE

    def make_columns(self) -> Columns[PrincipalDefinition]:
        principals = self.manager.security.principals
        return {
            **super().make_columns(),
            "members": lambda each: principals.members_of(each.name),
        }

    def all(self) -> Iterable[PrincipalDefinition]:
        return [_ADMINISTRATOR, *super().all()]

    def find(self, request: Request) -> PrincipalDefinition:
        if request.operation == "READ" and request.name == ADMINISTRATOR:
            return _ADMINISTRATOR
        return super().find(request)


def _grant_of(request: Request) -> Grant:
    attributes: Attributes = request.attributes()
    on: Any = attributes.get("on")
    if not isinstance(on, str):
        raise RequestError(BAD_REQUEST, f"on is {on!r:.100}, must be a pattern, or queue manager")
    try:
        return make_grant(_texts("rights", attributes.get("rights")), on)
    except GrantInvalid as error:
        raise RequestError(BAD_REQUEST, str(error)) from error


def _merged(made: PrincipalDefinition) -> tuple[Grant, ...]:
    """Its grants, one for each pattern. Raises DefinitionInvalid."""
    grants: tuple[Grant, ...] = ()
    for each in made.parsed_grants():
        grants = add_grants(grants, each)
    return grants


def _texts(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise RequestError(BAD_REQUEST, f"{key} is {value!r:.100}, must be a list of strings")
    return tuple(value)

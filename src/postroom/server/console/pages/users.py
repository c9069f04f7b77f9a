"""Users and roles: who may do what."""

from collections.abc import Mapping
from typing import Any, ClassVar

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from postroom.model.entity_types import ROLE_TYPE, USER_TYPE
from postroom.model.rights import ALL, QUEUE_MANAGER, Right
from postroom.server.configuration.passwords import hash_password
from postroom.server.console.actions import Action, Confirmation, Field, Outcome
from postroom.server.console.formats import count, path_of
from postroom.server.console.list_page import ListPage
from postroom.server.console.listing import BADGE, COUNT, Column
from postroom.server.console.page import Page
from postroom.server.console.visit import Visit
from postroom.server.http.errors import Refusal
from postroom.server.management.request import Attributes

USERS, ROLES = "users", "roles"

MAX_PASSWORD_CHARS = 1000


def listed(text: str) -> list[str]:
    """Words with commas between them."""
    return [word for part in text.split(",") if (word := part.strip())]


class _OfPrincipal(Action):
    """One of a user's or role's page."""

    def __init__(self, entity_type: str) -> None:
        self._type = entity_type
        self._folder = USERS if entity_type == USER_TYPE else ROLES

    def outcome(self, name: str, text: str) -> Outcome:
        """Shown on its page."""
        return Outcome(text, path_of(self._folder, name))


class _Make(Action, name="create"):
    """A new one, with roles."""

    @staticmethod
    def fields() -> list[Field]:
        return [
            Field("name", "Name", required=True),
            Field("description", "Description"),
            Field("roles", "Roles", hint="with commas between them"),
        ]

    @staticmethod
    def settings(form: Mapping[str, str]) -> dict[str, Any]:
        return {"description": form.get("description", ""), "roles": listed(form.get("roles", ""))}


class CreateUser(_Make, label="New user"):
    """A user with a password."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        effects = ("A user may do nothing but what its roles, and grants of its own, allow.",)
        password = Field(
            "password", "Password", "password", hint="without one: by certificate or token alone"
        )
        return Confirmation("New user", effects, [*self.fields(), password])

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        settings = self.settings(form)
        if form.get("password"):
            settings["verifiers"] = await verifiers_of(form["password"])
        await visit.manage("CREATE", USER_TYPE, form.get("name", ""), settings)
        return Outcome(f"Created: user {form['name']}.", path_of(USERS, form["name"]))


class CreateRole(_Make, label="New role"):
    """A role without grants."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        effects = ("Grants are added on the role's page.",)
        return Confirmation("New role", effects, self.fields())

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        await visit.manage("CREATE", ROLE_TYPE, form.get("name", ""), self.settings(form))
        return Outcome(f"Created: role {form['name']}.", path_of(ROLES, form["name"]))


async def verifiers_of(password: str) -> list[str]:
    """What is kept of it; it costs tens of milliseconds, beside the loop. Raises `Refusal`."""
    if len(password) > MAX_PASSWORD_CHARS:
        raise Refusal(400, "bad-password", f"the password is longer than {MAX_PASSWORD_CHARS} characters")
    return [await run_in_threadpool(hash_password, password)]


class SetPassword(_OfPrincipal, name="password", label="Set password"):
    """Another password."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        await visit.manage("READ", USER_TYPE, name)
        effects = (
            "From now on only this password counts. Connections that are there stay; sessions of the console "
            "that were begun with the old one end.",
        )
        return Confirmation(
            f"Another password for {name}",
            effects,
            (Field("password", "Password", "password", required=True),),
        )

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        if not form.get("password"):
            raise Refusal(400, "bad-password", "the password is empty")
        settings = {"verifiers": await verifiers_of(form["password"])}
        await visit.manage("UPDATE", USER_TYPE, name, settings)
        return self.outcome(name, f"Set: the password of {name}.")


class Lock(_OfPrincipal, name="lock", label="Lock", danger=True):
    """Nobody signs in as that user."""

    locks: ClassVar = True

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        user = await visit.manage("READ", USER_TYPE, name)
        effects = [f"Nobody signs in as {name} until the user is unlocked."]
        effects.append(f"{count(user['connections'])} connections of that user are closed.")
        return Confirmation(f"Lock {name}?", effects)

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        await visit.manage("UPDATE", USER_TYPE, name, {"locked": self.locks})
        return self.outcome(name, f"{'Locked' if self.locks else 'Unlocked'}: {name}.")


class Unlock(Lock, name="unlock", label="Unlock"):
    """The reverse."""

    locks: ClassVar = False

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        await visit.manage("READ", USER_TYPE, name)
        return Confirmation(f"Unlock {name}?", [f"{name} may sign in again."])


class SetRoles(_OfPrincipal, name="roles", label="Set roles"):
    """Other roles."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        known = await visit.manage("READ", self._type, name)
        roles = Field("roles", "Roles", value=", ".join(known["roles"]), hint="with commas between them")
        effects = ("What no role and no grant allows any more ends at once: links are detached.",)
        return Confirmation(f"Roles of {name}", effects, (roles,))

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        await visit.manage("UPDATE", self._type, name, {"roles": listed(form.get("roles", ""))})
        return self.outcome(name, f"Set: the roles of {name}.")


class GrantRights(_OfPrincipal, name="grant", label="Grant"):
    """More rights."""

    operation: ClassVar = "GRANT"
    effects: ClassVar = ("It counts at once, for connections that are there, too.",)

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        await visit.manage("READ", self._type, name)
        on = Field("on", "On", hint=f"a name, a pattern such as orders.*, or {QUEUE_MANAGER}", required=True)
        known = ", ".join(map(str, Right))
        rights = Field("rights", "Rights", hint=f"with commas between them: {ALL}, {known}", required=True)
        return Confirmation(f"{self.label} {name}", self.effects, (rights, on))

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        body = {"rights": listed(form.get("rights", "")), "on": form.get("on", "")}
        await visit.manage(self.operation, self._type, name, body)
        return self.outcome(name, f"{self.label}: {', '.join(body['rights'])} on {body['on']}, {name}.")


class RevokeRights(GrantRights, name="revoke", label="Revoke", danger=True):
    """Fewer rights."""

    operation: ClassVar = "REVOKE"
    effects: ClassVar = ("What was granted on just that goes, at once: links that need it are detached.",)


class DeletePrincipal(_OfPrincipal, name="delete", label="Delete", danger=True):
    """A user or role."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        known = await visit.manage("READ", self._type, name)
        if known["configured"]:
            effects = ["The configuration file has it: take it out there."]
            return Confirmation(f"Delete {name}", effects, possible=False)
        if self._type == ROLE_TYPE:
            effects = [f"{count(len(known['members']))} users and roles have it directly; they lose it."]
        else:
            effects = [f"{count(known['connections'])} connections of {name} are closed."]
        return Confirmation(f"Delete {name}?", effects)

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        await visit.manage("DELETE", self._type, name)
        return Outcome(f"Deleted: {name}.", path_of(self._folder))


class UserList(ListPage, path="/users"):
    """All users."""

    entity_type: ClassVar = USER_TYPE
    what: ClassVar = "users"
    searched: ClassVar = ("name", "roles_text", "description")
    actions: ClassVar = (CreateUser(),)
    columns: ClassVar = (
        Column("name", "User", link=lambda row: path_of(USERS, row["name"])),
        Column("roles_text", "Roles"),
        Column("signs_in_text", "Signs in by", wide=True),
        Column("connections", "Connections", COUNT),
        Column("description", "Description", wide=True),
        Column("state", "State", BADGE),
    )

    async def rows(self, visit: Visit) -> list[Attributes]:
        return [
            {
                **row,
                "roles_text": ", ".join(row["roles"]),
                "signs_in_text": ", ".join(row["signs_in_by"]),
                "state": "locked" if row["locked"] else "",
            }
            for row in await visit.rows(USER_TYPE)
        ]


class RoleList(ListPage, path="/roles"):
    """All roles."""

    entity_type: ClassVar = ROLE_TYPE
    what: ClassVar = "roles"
    searched: ClassVar = ("name", "grants_text", "members_text", "description")
    actions: ClassVar = (CreateRole(),)
    columns: ClassVar = (
        Column("name", "Role", link=lambda row: path_of(ROLES, row["name"])),
        Column("grants_text", "Grants"),
        Column("members_text", "Members"),
        Column("description", "Description", wide=True),
    )

    async def rows(self, visit: Visit) -> list[Attributes]:
        return [
            {**row, "grants_text": "; ".join(row["grants"]), "members_text": ", ".join(row["members"])}
            for row in await visit.rows(ROLE_TYPE)
        ]


class OneUser(Page, path="/users/{name:path}"):
    """One of them, by name."""

    actions: ClassVar = (
        SetRoles(USER_TYPE),
        GrantRights(USER_TYPE),
        RevokeRights(USER_TYPE),
        SetPassword(USER_TYPE),
        Lock(USER_TYPE),
        Unlock(USER_TYPE),
        DeletePrincipal(USER_TYPE),
    )

    async def show(self, visit: Visit) -> Response:
        user = await visit.manage("READ", USER_TYPE, visit.name)
        hidden = Unlock.name if not user["locked"] else Lock.name
        offered = [each for each in self.actions if each.name != hidden]
        return visit.page("principal.html", principal=user, folder=USERS, actions=offered)


class OneRole(Page, path="/roles/{name:path}"):
    """One of them, by name."""

    actions: ClassVar = (
        SetRoles(ROLE_TYPE),
        GrantRights(ROLE_TYPE),
        RevokeRights(ROLE_TYPE),
        DeletePrincipal(ROLE_TYPE),
    )

    async def show(self, visit: Visit) -> Response:
        role = await visit.manage("READ", ROLE_TYPE, visit.name)
        return visit.page("principal.html", principal=role, folder=ROLES, actions=self.actions)

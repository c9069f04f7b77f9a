"""Users and roles: made, changed, forgotten, and what a restart keeps of them."""

from dataclasses import replace

import pytest

from postroom.manager.kernel.errors import (
    DefinitionInvalid,
    LimitExceeded,
    PrincipalExists,
    PrincipalInUse,
    PrincipalNotFound,
)
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.security.principal_definition import ROLE, USER, PrincipalDefinition
from postroom.model.rights import ADMINISTRATOR, Right
from tests.manager.over_ledger import LedgerWorld

ROOT = PrincipalDefinition("root", roles=(ADMINISTRATOR,))
DESK = PrincipalDefinition("desk", ROLE, grants=("put on orders.#",))
ANN = PrincipalDefinition("ann", roles=("desk",), grants=("get on replies",))


@pytest.fixture
def world() -> LedgerWorld:
    made = LedgerWorld()
    for each in (ROOT, DESK, ANN):
        made.manager.security.define(each, made.now_us)
    return made


def test_without_users_everybody_may_everything() -> None:
    security = LedgerWorld().manager.security
    assert not security.in_force
    assert security.rights_of("anybody").on(Right.PUT, "orders")


def test_with_users_nobody_may_what_nothing_grants(world: LedgerWorld) -> None:
    security = world.manager.security
    assert security.rights_of("root").on(Right.PURGE, "anything")
    assert security.rights_of("ann").on(Right.PUT, "orders.eu")
    assert security.rights_of("ann").on(Right.GET, "replies")
    assert not security.rights_of("ann").on(Right.GET, "orders.eu")
    assert not security.rights_of("anonymous").on(Right.PUT, "orders.eu")
    assert not security.rights_of("desk").on(Right.PUT, "orders.eu"), "a role signs in nowhere"


def test_roles_have_roles(world: LedgerWorld) -> None:
    security = world.manager.security
    security.define(PrincipalDefinition("all-desks", ROLE, roles=("desk",)), world.now_us)
    security.define(PrincipalDefinition("bob", roles=("all-desks",)), world.now_us)
    assert security.rights_of("bob").on(Right.PUT, "orders.eu")
    with pytest.raises(DefinitionInvalid, match="would have itself"):
        security.alter(replace(DESK, roles=("all-desks",)), world.now_us)


def test_a_role_that_goes_is_nobodys_any_more(world: LedgerWorld) -> None:
    security = world.manager.security
    security.drop("desk", ROLE, world.now_us)
    assert not security.rights_of("ann").on(Right.PUT, "orders.eu")
    security.define(DESK, world.now_us)
    assert not security.rights_of("ann").on(Right.PUT, "orders.eu")
    assert security.find("ann", USER).roles == ()


def test_a_locked_user_may_nothing(world: LedgerWorld) -> None:
    world.manager.security.alter(replace(ANN, locked=True), world.now_us)
    assert not world.manager.security.rights_of("ann").on(Right.GET, "replies")


@pytest.mark.parametrize("change", ["lock", "remove", "take the role"])
def test_somebody_may_always_administer_users(world: LedgerWorld, change: str) -> None:
    security, before = world.manager.security, world.builder.next_position
    with pytest.raises(PrincipalInUse, match="administer users"):
        if change == "remove":
            security.drop("root", USER, world.now_us)
        else:
            security.alter(replace(ROOT, locked=change == "lock", roles=()), world.now_us)
    assert world.builder.next_position == before
    assert security.rights_of("root").on_queue_manager(Right.ADMINISTER_USERS)


def test_the_first_user_is_an_administrator() -> None:
    world = LedgerWorld()
    for each in (ANN, DESK, replace(ANN, roles=())):
        with pytest.raises((PrincipalInUse, DefinitionInvalid)):
            world.manager.security.define(each, world.now_us)
    assert not world.manager.security.in_force


def test_what_can_not_be(world: LedgerWorld) -> None:
    security = world.manager.security
    with pytest.raises(PrincipalExists):
        security.define(PrincipalDefinition("desk"), world.now_us)
    with pytest.raises(PrincipalExists):
        security.define(PrincipalDefinition(ADMINISTRATOR, ROLE), world.now_us)
    with pytest.raises(PrincipalNotFound):
        security.alter(PrincipalDefinition("desk"), world.now_us)
    for wrong in (
        PrincipalDefinition(""),
        PrincipalDefinition("a\nb"),
        PrincipalDefinition("x" * 256),
        PrincipalDefinition("bob", roles=("nowhere",)),
        PrincipalDefinition("bob", roles=("ann",)),
        PrincipalDefinition("bob", grants=("fly on orders",)),
        PrincipalDefinition("bob", grants=("put on a",) * 1001),
        PrincipalDefinition("team", ROLE, verifiers=("x",)),
    ):
        with pytest.raises(DefinitionInvalid):
            security.define(wrong, world.now_us)


def test_users_are_bounded() -> None:
    world = LedgerWorld(ManagerOptions(max_principals=1))
    world.manager.security.define(ROOT, world.now_us)
    with pytest.raises(LimitExceeded, match="max_principals"):
        world.manager.security.define(DESK, world.now_us)


@pytest.mark.parametrize("how", ["journal", "checkpoint"])
def test_a_restart_keeps_them(world: LedgerWorld, how: str) -> None:
    world.manager.security.drop("ann", USER, world.now_us)
    world.manager.security.define(replace(ANN, verifiers=("v1",), locked=True), world.now_us)
    if how == "checkpoint":
        world.maintain()
    world.restart()
    principals = world.manager.security.principals
    assert [each.definition for each in principals.by_name.values()] == [
        ROOT,
        DESK,
        replace(ANN, verifiers=("v1",), locked=True),
    ]
    world.manager.security.alter(ANN, world.now_us)
    world.restart()
    assert world.manager.security.find("ann", USER) == ANN


def test_the_configurations_users_are_changed_there(world: LedgerWorld) -> None:
    security = world.manager.security
    security.configure(
        [PrincipalDefinition("eve"), PrincipalDefinition("ann")], {"desk": ["eve"], ADMINISTRATOR: ["ann"]}
    )
    assert security.rights_of("eve").on(Right.PUT, "orders.eu")
    assert security.rights_of("ann").on_queue_manager(Right.RESOLVE)
    with pytest.raises(PrincipalInUse, match="configuration"):
        security.alter(ANN, world.now_us)
    security.configure([], {})
    assert security.find("ann", USER) == ANN

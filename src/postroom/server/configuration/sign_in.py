"""The tables ``[sign_in]``, ``[[certificate_user]]`` and ``[[sign_in_rule]]``: how failed sign-ins are slowed
down, whom a certificate stands for, as PostgreSQL has it in pg_ident.conf, and who signs in how from where,
as in its pg_hba.conf."""

import re
from collections.abc import Iterable
from ipaddress import ip_network
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from postroom.server.configuration.listening import ListenConfig, Mechanism
from postroom.server.configuration.values import Name, NotNegative, PlacedError, Positive

GROUP: Final = "\\1"
ROLE_PREFIX: Final = "role:"


class SignInConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Failed sign-ins, by address and user, and by address: the answer to the next failure comes later."""

    failure_delay_ms: NotNegative = 250
    """Of the second failure of a user from an address; each further one doubles it; 0: none waits."""
    max_failure_delay_ms: NotNegative = 4000
    """Longest delay; half of `open_timeout_ms` where that is less."""
    address_failures: NotNegative = 20
    """From one address, whatever the users, before those of any user are delayed likewise; an IPv6 address
    stands for its /64."""
    failure_memory_s: Positive = 600
    """After so long without a failure they are forgotten; those of a user from an address also with a
    success."""
    waiting_per_user: Annotated[int, Meta(ge=1, le=1000)] = 8
    """Refusals of a user from one address that wait at a time; further sign-ins of that user from there are
    turned away unchecked, with SASL's `sys-temp`."""
    waiting_per_address: Annotated[int, Meta(ge=1, le=100_000)] = 128
    """The same of all users from one address."""
    waiting: Annotated[int, Meta(ge=1, le=1_000_000)] = 2000
    """Refusals that wait in all; at this bound the next that is due goes out early."""


class CertificateUserConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Whose certificates of a kind are."""

    field: Literal["subject", "common_name", "dns", "email", "uri"]
    """What is compared: the subject as RFC 4514 writes it (`CN=ann,O=Shop`), a common name of it, or a name
    of that kind among the alternative names, of which any may match."""
    pattern: str
    """The whole value; between slashes, a regular expression for all of it: `/(.*)\\.shop\\.example/`."""
    user: Name
    """Who that is; `\\1` stands for what the first group of the expression has matched."""

    def __post_init__(self) -> None:
        groups = 0
        if self.expression is not None:
            try:
                groups = re.compile(self.expression).groups
            except re.error as error:
                what = f"{self.pattern!r} is no regular expression: {error}"
                raise PlacedError(("pattern",), what) from error
        if GROUP in self.user and not groups:
            raise PlacedError(("user",), rf"{self.user!r} has \1, and the pattern has no group: /(…)/")

    @property
    def expression(self) -> str | None:
        """The regular expression; None where the pattern is the value itself."""
        is_expression = len(self.pattern) >= 2 and self.pattern[0] == self.pattern[-1] == "/"
        return self.pattern[1:-1] if is_expression else None


class SignInRuleConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How some users sign in from some addresses."""

    ranges: list[str] = field(name="from", default_factory=list)
    """Ranges of addresses, as `10.0.0.0/8`, `fd00::/8` or `192.0.2.7`; empty: any."""
    listen: list[str] = []
    """Addresses of [`[[listen]]`](#listen) that are called; empty: any."""
    users: list[Name] = []
    """Users, `anonymous`, or `role:NAME` for all who have that role by whatever way; empty: any."""
    mechanisms: list[Mechanism | Literal["ANONYMOUS"]]
    """By what they may sign in, where the listener offers it; empty: not at all. `SCRAM-SHA-512` and
    `SCRAM-SHA-256` also allow what is more, the same with channel binding; `-PLUS` demands it."""

    def __post_init__(self) -> None:
        for index, text in enumerate(self.ranges):
            try:
                ip_network(text)
            except ValueError as error:
                raise PlacedError(("from", index), f"{text!r} is no range of addresses: {error}") from error


def check_rules(rules: Iterable[SignInRuleConfig], listen: Iterable[ListenConfig]) -> None:
    """Raises `PlacedError` for a rule that speaks of a listener that isn't there."""
    known = {each.address for each in listen}
    for index, rule in enumerate(rules):
        for place, address in enumerate(rule.listen):
            if address not in known:
                what = f"{address!r} is the address of no [[listen]]: these are {', '.join(sorted(known))}"
                raise PlacedError(("sign_in_rule", index, "listen", place), what)

"""Who may sign in how from where, and whom a client's certificate stands for.

Rules are as PostgreSQL's pg_hba.conf has them: the first that speaks of the address, the listener and the
user counts, and there is no falling through to another. A client hears the same of a rule that refuses it as
of a wrong password, so rules are asked when everything else is right.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from postroom.amqp.frames.sasl import ANONYMOUS, EXTERNAL, binds_channel, without_binding
from postroom.manager.security.principal_definition import USER
from postroom.manager.security.principals import Principals
from postroom.server.configuration.config import Config
from postroom.server.configuration.sign_in import (
    GROUP,
    ROLE_PREFIX,
    CertificateUserConfig,
    SignInRuleConfig,
)
from postroom.server.kernel.connection_state import ANONYMOUS_USER

COMMON_NAME: Final = "common_name"


@dataclass(frozen=True)
class ClientCertificate:
    """What a certificate that TLS has verified says of its holder."""

    subject: str
    """As RFC 4514 writes it."""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By the fields of ``[[certificate_user]]``."""
    end_us: int = 0
    """When it ends, wall clock."""


@dataclass(frozen=True)
class Arrival:
    """Where a connection comes in."""

    remote: str
    """``HOST:PORT`` of the client."""
    listen: str = ""
    """The listener's address, as the configuration has it."""
    certificate: ClientCertificate | None = None
    end_point: bytes = b""
    """What SCRAM-…-PLUS is bound to: a hash of the certificate that TLS has shown the client; empty: nothing.
    """

    def can_use(self, mechanism: str) -> bool:
        """Whether the connection has what the mechanism needs."""
        if mechanism == EXTERNAL:
            return self.certificate is not None
        return bool(self.end_point) or not binds_channel(mechanism)


class _Rule:
    def __init__(self, config: SignInRuleConfig) -> None:
        self.config: Final = config
        self._ranges: Final = [ip_network(text) for text in config.ranges]

    def is_for(self, arrival: Arrival, address: IPv4Address | IPv6Address | None) -> bool:
        listen = self.config.listen
        if listen and arrival.listen not in listen:
            return False
        return not self._ranges or (address is not None and any(address in each for each in self._ranges))


class SignInPolicy:
    """That of one broker, as its configuration has it now."""

    def __init__(self, principals: Principals) -> None:
        self._principals: Final = principals
        self._rules: list[_Rule] = []
        self._certificate_users: list[CertificateUserConfig] = []

    def configure(self, config: Config) -> None:
        """Take the rules of a configuration; who is in already stays."""
        self._rules = [_Rule(each) for each in config.sign_in_rule]
        self._certificate_users = config.certificate_user

    # Rules.

    def offered(self, arrival: Arrival, mechanisms: list[str]) -> list[str]:
        """Those of the listener's mechanisms by which somebody could be let in; where that is none, all of
        them, so that who is refused doesn't see why."""
        usual = [each for each in mechanisms if arrival.can_use(each)]
        if not self._rules:
            return usual
        possible = self._possible(arrival)
        return [each for each in usual if _is_among(each, possible)] or usual

    def refusal(self, arrival: Arrival, user: str, mechanism: str, roles: tuple[str, ...] = ()) -> str:
        """Why ``user``, with ``roles`` of a token, may not sign in so from there; empty: it may."""
        if not self._rules:
            return ""
        address = _address_of(arrival)
        for number, rule in enumerate(self._rules, 1):
            if rule.is_for(arrival, address) and self._names(rule.config, user, roles):
                allows = _is_among(mechanism, rule.config.mechanisms)
                return "" if allows else f"sign-in rule {number} doesn't allow that"
        return "no sign-in rule is for it"

    def _possible(self, arrival: Arrival) -> set[str]:
        found: set[str] = set()
        address = _address_of(arrival)
        for rule in self._rules:
            if rule.is_for(arrival, address):
                found.update(rule.config.mechanisms)
                if not rule.config.users:
                    break
        if self.refusal(arrival, ANONYMOUS_USER, ANONYMOUS):
            found.discard(ANONYMOUS)
        return found

    def _names(self, rule: SignInRuleConfig, user: str, roles: tuple[str, ...]) -> bool:
        if not rule.users or user in rule.users:
            return True
        every = [*self._principals.every_role_of(user), *roles]
        return any(ROLE_PREFIX + role in rule.users for role in every)

    # Certificates.

    def holder(self, arrival: Arrival, acting_as: bytes, now_us: int) -> tuple[str, str]:
        """Whose certificate was shown, as far as that is known, and why that user can't sign in by it; the
        latter is empty where nothing is against it. ``acting_as`` is what SASL EXTERNAL asks for."""
        certificate = arrival.certificate
        if certificate is None:
            return "", "no certificate was shown"
        user = self._user_of(certificate)
        if not user:
            return "", f"certificate {certificate.subject} is no user's"
        if acting_as not in (b"", user.encode()):
            return (
                user,
                f"certificate {certificate.subject} is not that of {acting_as.decode(errors='replace')!r}",
            )
        if certificate.end_us <= now_us:
            return user, f"certificate {certificate.subject} has ended"
        if not self.is_user(user):
            return user, f"certificate {certificate.subject}: there is no such user, or it is locked"
        return user, ""

    def is_user(self, name: str) -> bool:
        """Whether there is such a user, who isn't locked."""
        definition = self._principals.get(name)
        return definition is not None and definition.kind == USER and not definition.locked

    def _user_of(self, certificate: ClientCertificate) -> str:
        if not self._certificate_users:
            names = certificate.names.get(COMMON_NAME, ())
            return names[0] if len(names) == 1 else ""
        for each in self._certificate_users:
            for value in certificate.names.get(each.field, ()):
                if each.expression is None:
                    if value == each.pattern:
                        return each.user
                elif match := re.fullmatch(each.expression, value):
                    return each.user.replace(GROUP, match[1] or "") if match.re.groups else each.user
        return ""


def _is_among(mechanism: str, allowed: Collection[str]) -> bool:
    return mechanism in allowed or without_binding(mechanism) in allowed


def _address_of(arrival: Arrival) -> IPv4Address | IPv6Address | None:
    host = (arrival.remote.rpartition(":")[0] or arrival.remote).strip("[]")
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address

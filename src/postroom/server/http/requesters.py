"""Who makes a request: by a bearer token, by a session's cookie, or nobody where everybody may do everything.

A browser sends a cookie, and reaches a loopback address, for any page that it shows. So a cookie counts for
an unsafe method together with the session's CSRF token alone; where there are no users a body must be of
JSON, which no form of another site is; requests that a browser marks as another site's are refused; and a
loopback address is served under names of this machine alone, so that no name of a page's own comes to mean
it.
"""

import hmac
import secrets
import time
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from postroom.amqp.frames.sasl import ANONYMOUS
from postroom.server.access.access import Access
from postroom.server.addresses import is_loopback
from postroom.server.configuration.http import HttpConfig
from postroom.server.http.admission import Admission, bearer, remote_of
from postroom.server.http.bodies import FORM_TYPE, JSON_TYPE, content_type, form_of
from postroom.server.http.errors import Refusal
from postroom.server.http.sessions import SECRET_BYTES, Session, Sessions
from postroom.server.http.sign_in import BEARER, CONTAINER, HttpSignIn
from postroom.server.http.tokens import Right, Token
from postroom.server.kernel.connection_state import ANONYMOUS_USER
from postroom.server.management.request import Requester

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
CSRF_HEADER: Final = "x-csrf-token"
CSRF_FIELD: Final = "csrf_token"
SAME_SITE: Final = frozenset({"same-origin", "none"})
"""What a browser says of requests of our own pages, and of those that a person has begun."""
WEB_TOKEN_DOTS: Final = 2
"""A JSON Web Token has three parts, one of the file of tokens two."""


class Requesters:
    """Of one broker."""

    def __init__(self, config: HttpConfig, admission: Admission, access: Access, sign_in: HttpSignIn) -> None:
        self._config: Final = config
        self._admission: Final = admission
        self._access: Final = access
        self._sign_in: Final = sign_in
        self._sessions: Final = Sessions(config, access.users(), time.monotonic)
        access.listeners.append(self._sessions.replace_users)
        self._open_csrf_token: Final = secrets.token_urlsafe(SECRET_BYTES)
        """Of forms where there are no users, and so no sessions."""
        self._secure: Final = bool(config.tls_certificate) or (config.plain and not config.is_loopback)

    # Questions.

    async def requester_of(self, request: Request) -> Requester:
        """Who makes it. Raises `Refusal`: 401 where nobody has signed in, others for what is no request of
        theirs."""
        self.check_host(request)
        remote = remote_of(request)
        presented = bearer(request)
        if presented:
            return await self._by_bearer(presented, request, remote)
        session = self.session_of(request)
        if session is not None:
            self._admission.keep_pace(f"session {session.csrf_token}", request)
            if request.method not in SAFE_METHODS:
                _check_origin(request)
                await self._check_csrf(request, session.csrf_token)
            return Requester(session.user, remote, CONTAINER)
        self._admission.keep_pace("", request)
        if not self.is_open(remote):
            what = "sign in first, or show a bearer token (postroom token add --right manage)"
            raise Refusal(401, "not-signed-in", what, BEARER)
        if request.method not in SAFE_METHODS:
            await self._check_open(request)
        return Requester(ANONYMOUS_USER, remote, CONTAINER)

    def session_of(self, request: Request) -> Session | None:
        """That of the request's cookie; None: it has none that counts."""
        return self._sessions.find(self._cookie_of(request))

    def csrf_token(self, request: Request) -> str:
        """What an unsafe request of this session must show, by header or field of its form."""
        session = self.session_of(request)
        if session is not None:
            return session.csrf_token
        return self._open_csrf_token if self.is_open(remote_of(request)) else ""

    def is_open(self, remote: str) -> bool:
        """Whether everybody who comes from there may do everything: there are no users, and only this machine
        can come."""
        if self._access.in_force or not self._config.is_loopback:
            return False
        arrival = self._sign_in.arrival(remote)
        return not self._access.policy.refusal(arrival, ANONYMOUS_USER, ANONYMOUS)

    def lives(self, session: Session) -> bool:
        """Whether a session isn't over; a stream asks now and then."""
        return self._sessions.lives(session)

    def check_host(self, request: Request) -> None:
        """Raise `Refusal` for a name that isn't this machine's, or one of those that are configured."""
        host = _host_of(request.headers.get("host", ""))
        if host in self._config.hosts:
            return
        restricted = self._config.is_loopback or self._config.hosts
        if restricted and not is_loopback(host):
            what = f"{host!r} is no name of this broker: a name other than localhost stands in [http] hosts"
            raise Refusal(421, "wrong-host", what)

    # Signing in and out.

    async def sign_in(self, request: Request, user: str, password: str) -> tuple[Session, str]:
        """A new session for that user, and the value of its ``set-cookie`` header. Raises `Refusal`."""
        self.check_host(request)
        self._admission.keep_pace("", request)
        _check_origin(request)
        signed_in = await self._sign_in.by_password(user, password, remote_of(request))
        self._sessions.end(self._cookie_of(request))
        cookie, session = self._sessions.begin(signed_in)
        return session, self._set_cookie(request, cookie, self._config.session_lifetime_s)

    def sign_out(self, request: Request) -> str:
        """End the request's session, which has been found; the value of the ``set-cookie`` header."""
        self._sessions.end(self._cookie_of(request))
        return self._set_cookie(request, "", 0)

    def _set_cookie(self, request: Request, value: str, max_age_s: int) -> str:
        secure = "; Secure" if self._secure else ""
        name = self._cookie_name(request)
        return f"{name}={value}; Max-Age={max_age_s}; Path=/; HttpOnly; SameSite=Strict{secure}"

    def _cookie_name(self, request: Request) -> str:
        """With the port: browsers tell cookies of one machine's ports not apart."""
        server = request.scope.get("server")
        prefix = "__Host-" if self._secure else ""
        return f"{prefix}postroom-{server[1] if server else 0}"

    def _cookie_of(self, request: Request) -> str:
        try:
            morsel = SimpleCookie(request.headers.get("cookie", "")).get(self._cookie_name(request))
        except CookieError:
            return ""
        return "" if morsel is None else morsel.value

    # Checks.

    async def _by_bearer(self, presented: str, request: Request, remote: str) -> Requester:
        if presented.count(".") == WEB_TOKEN_DOTS:
            self._admission.keep_pace("", request)
            return await self._sign_in.by_web_token(presented, remote)
        token = self._admission.admit(request, Right.MANAGE, request.url.path)
        self._check_user(token)
        return Requester(token.user or ANONYMOUS_USER, remote, CONTAINER)

    def _check_user(self, token: Token) -> None:
        if self._access.in_force and not self._access.policy.is_user(token.user):
            what = f"the token {token.name!r}: there is no user {token.user!r}, or it is locked"
            raise Refusal(401, "no-user", what, BEARER)

    async def _check_csrf(self, request: Request, expected: str) -> None:
        shown = request.headers.get(CSRF_HEADER)
        if shown is None:
            shown = (await form_of(request, self._config)).get(CSRF_FIELD, "")
        if not hmac.compare_digest(shown.encode("utf-8", "replace"), expected.encode()):
            what = f"the session's CSRF token is missing or wrong: header {CSRF_HEADER} or field {CSRF_FIELD}"
            raise Refusal(403, "wrong-csrf-token", what)

    async def _check_open(self, request: Request) -> None:
        """No other site's page has made it: a form would say so by its type."""
        _check_origin(request)
        kind = content_type(request)
        if kind == FORM_TYPE or CSRF_HEADER in request.headers:
            await self._check_csrf(request, self._open_csrf_token)
        elif kind not in ("", JSON_TYPE):
            raise Refusal(415, "not-json", f"a body of {kind!r}: give {JSON_TYPE}")


def _check_origin(request: Request) -> None:
    """Refuse what a browser says another site's page has made."""
    site = request.headers.get("sec-fetch-site", "none")
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
    if site not in SAME_SITE or (origin is not None and _authority_of(origin) != host.lower()):
        what = f"a page of {origin or 'another site'} may not do this"
        raise Refusal(403, "cross-site", what)


def _authority_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _host_of(header: str) -> str:
    """Without the port; of an IPv6 address without its brackets."""
    host, _, port = header.rpartition(":")
    if not host or not port.isdigit():
        host = header
    return host.removeprefix("[").removesuffix("]").lower()

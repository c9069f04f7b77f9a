"""Who calls over HTTP, and what they may read: what both their token opens and its user may read.

Requests are answered on a thread of their own; users and roles are the broker's. So what users may read is
taken from there whenever it has changed, as a whole, and refusals are handed over to be recorded.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from postroom.manager.security.acts import SIGN_IN, Act
from postroom.model import rights as model
from postroom.server.access.access import FORBIDDEN, UNAUTHORIZED, Access, missing
from postroom.server.http.errors import Refusal
from postroom.server.http.tokens import Right, Token, Tokens

ROUTE: Final = "http"
"""Type of what acts of HTTP are about; their name is its path."""
OF_USERS: Final = {
    Right.LEDGER: model.Right.READ_LEDGER,
    Right.BODIES: model.Right.READ_BODIES,
    Right.METRICS: model.Right.METRICS,
    Right.REPLICATE: model.Right.REPLICATE,
}
"""What a user needs on the queue manager. For `Right.MANAGE` nothing: each operation asks for its own."""


class Callers:
    """Who may read over HTTP."""

    def __init__(
        self, tokens: Tokens, access: Access, command: Callable[[Callable[[int], object]], None]
    ) -> None:
        self._tokens: Final = tokens
        self._acts: Final = access.acts
        self._command: Final = command
        self._readable = access.on_queue_manager()
        """By user; None: everybody may do everything."""
        access.listeners.append(partial(self._changed, access))

    def _changed(self, access: Access, _: object) -> None:
        self._readable = access.on_queue_manager()

    def find(self, presented: str, now_us: int) -> Token | None:
        """The token that these characters are; None if they are none that is in force."""
        return self._tokens.find(presented, now_us)

    def may(self, token: Token, right: Right) -> bool:
        """Whether it opens that."""
        readable = self._readable
        if right not in token.rights or readable is None:
            return right in token.rights
        if right is Right.MANAGE:
            return token.user in readable
        return OF_USERS[right] in readable.get(token.user, ())

    def unauthorized(self, was_presented: bool, remote: str, path: str) -> Refusal:
        """The answer to who has no token that is in force; a wrong one is recorded."""
        if self._tokens.error:
            what = "no token is in force: the broker's file of tokens can't be used"
        elif was_presented:
            what = "no token that is in force: unknown, removed or expired"
        else:
            what = "a token is needed: Authorization: Bearer TOKEN (postroom token add)"
        if was_presented:
            self.record(Act("", remote, "", SIGN_IN, ROUTE, path, UNAUTHORIZED, what))
        return Refusal(401, "no-token", what, {"www-authenticate": 'Bearer realm="postroom"'})

    def forbidden(self, token: Token, right: Right, remote: str, method: str, path: str) -> Refusal:
        """The answer to a token that doesn't open what was asked for; recorded."""
        if right not in token.rights:
            what = f"the token {token.name!r} has no right {str(right)!r}"
        elif token.user and right in OF_USERS:
            what = f"the token {token.name!r}: {missing(token.user, OF_USERS[right], model.QUEUE_MANAGER)}"
        elif token.user:
            what = f"the token {token.name!r}: there is no user {token.user!r}"
        else:
            what = f"the token {token.name!r} is no user's, and there are users: make it anew, with --user"
        self.record(Act(token.user, remote, "", method, ROUTE, path, FORBIDDEN, what))
        return Refusal(403, "no-right", what, right=str(right))

    def record(self, act: Act) -> None:
        """Have a refusal recorded."""
        self._command(partial(self._acts.refused, act))

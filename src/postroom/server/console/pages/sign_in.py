"""Signing in and out. The page is for everybody; what it opens is the user's own."""

from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from postroom.server.console import security_headers
from postroom.server.console.visit import SEE_OTHER, Console
from postroom.server.http.bodies import form_of
from postroom.server.http.errors import Refusal

SIGN_IN_PATH: Final = "/sign-in"
SIGN_OUT_PATH: Final = "/sign-out"


class SignIn:
    """What these two paths answer."""

    async def show(self, console: Console, request: Request, theme: str) -> Response:
        """The form; for whoever needs none, the page that was wanted."""
        target = _own_path(request.query_params.get("next", "/"))
        try:
            await console.shared.requesters.requester_of(request)
        except Refusal as refusal:
            if refusal.status != 401:
                raise
            return _form(console, target, theme)
        return RedirectResponse(target, SEE_OTHER, security_headers.PAGE)

    async def signed_in(self, console: Console, request: Request, theme: str) -> Response:
        """A session begins, and the page that was wanted; or the form again, which says why not."""
        form = await form_of(request, console.shared.config)
        target, user = _own_path(form.get("next", "/")), form.get("user", "")
        try:
            _, cookie = await console.shared.requesters.sign_in(request, user, form.get("password", ""))
        except Refusal as refusal:
            return _form(console, target, theme, user, refusal)
        headers = {**security_headers.PAGE, "set-cookie": cookie}
        return RedirectResponse(target, SEE_OTHER, headers)

    async def signed_out(self, console: Console, request: Request) -> Response:
        """The session ends; the form's CSRF token is checked."""
        await console.shared.requesters.requester_of(request)
        cookie = console.shared.requesters.sign_out(request)
        return RedirectResponse(SIGN_IN_PATH, SEE_OTHER, {**security_headers.PAGE, "set-cookie": cookie})


def _form(
    console: Console, target: str, theme: str, user: str = "", refusal: Refusal | None = None
) -> Response:
    problem = "" if refusal is None else str(refusal.body["what"])
    values = {"target": target, "theme": theme, "user": user, "problem": problem}
    status = 200 if refusal is None else refusal.status
    headers = {**security_headers.PAGE, **({} if refusal is None else refusal.headers)}
    headers.pop("www-authenticate", None)  # browsers would have a form of their own
    return HTMLResponse(console.templates.render("sign_in.html", values), status, headers)


def _own_path(target: str) -> str:
    """A path of the console; "/" for anything that could lead elsewhere."""
    try:
        split = urlsplit(target)
    except ValueError:
        return "/"
    is_own = not split.scheme and not split.netloc and target.startswith("/")
    is_plain = "\\" not in target and not target.startswith("//") and target.isprintable()
    return target if is_own and is_plain else "/"

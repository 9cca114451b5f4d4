"""Access to the server: tokens and their rights, and a guard that checks every request before it is handled.

Viewing, acting and answering questions are three rights: whoever acts cannot approve what agents ask for,
unless the token says so. Only the owner's token reaches beyond the server's folder. Nothing behind the guard
runs for a foreign Host or Origin, or without a token.

The address, in numbers, at which a request came in is a Host of its own: no page gets that by a trick with
names, because a name that it can point here is not written in numbers.

The token comes as `Authorization: Bearer`, as the cookie that a first visit with `/?token=` sets, or with
that first visit; it is never put into a URL again. Every answer carries headers that make it inert.
"""

import ipaddress
import os
import secrets
import stat
import time
from base64 import b64encode
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from hmac import compare_digest
from html import escape
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import (
    Literal,
    get_args,
)
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gencode.core.errors import Conflict, CorruptFact, GenCodeError, StoreTrouble, UnknownName, UserMistake

Role = Literal["view", "act", "answer"]
Right = Literal["view", "act", "answer", "everywhere"]
"""`everywhere` is to see and act on the tasks of other folders than the server's."""
RIGHTS: tuple[Right, ...] = get_args(Right)
ROLES: Mapping[Role, frozenset[Right]] = {
    "view": frozenset({"view"}),
    "act": frozenset({"view", "act"}),
    "answer": frozenset({"view", "answer"}),
}
"""The rights of a token with a role; the owner's token has all rights."""
OWNER: frozenset[Right] = frozenset(RIGHTS)
TOKEN_BYTES = 32
SHORTEST = 22
"""So many characters of base64 are 128 bits."""
LONGEST = 200
FEW = 10
"""The wrong tokens that one client may send within the window before it has to wait."""
WINDOW_SECONDS = 60.0
MOST_PEERS = 1024


class AccessTokens:
    """The tokens of one server and their rights. Only digests are compared, all of them, in constant time."""

    def __init__(self, owner: str = "", shared: Sequence[Role] = ()) -> None:
        self.owner = owner or secrets.token_urlsafe(TOKEN_BYTES)
        self.shared: list[tuple[Role, str]] = [(role, secrets.token_urlsafe(TOKEN_BYTES)) for role in shared]
        self._digests = [(_digest(self.owner), OWNER)]
        self._digests += [(_digest(token), ROLES[role]) for role, token in self.shared]

    def rights(self, token: str) -> frozenset[Right]:
        """The rights of a token; none for a wrong one."""
        shown = _digest(token)
        found: frozenset[Right] = frozenset()
        for digest, rights in self._digests:
            if compare_digest(digest, shown):
                found = rights
        return found


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()


def kept_token(path: Path) -> str:
    """The token in a file, which is created when it is not there."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return _read_token(path)
    except OSError as error:
        raise UserMistake(f"{path} cannot be written: {error.strerror}. Choose another file.") from None
    token = secrets.token_urlsafe(TOKEN_BYTES)
    with os.fdopen(handle, "w") as file:
        file.write(f"{token}\n")
    return token


def _read_token(path: Path) -> str:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(file.fileno())
            text = file.read(LONGEST + 2) if stat.S_ISREG(found.st_mode) else b""
    except OSError as error:
        raise UserMistake(f"{path} cannot be read: {error.strerror}. Choose another file.") from None
    if found.st_mode & 0o077:
        raise UserMistake(f"{path} can be read by other users. Run: chmod 600 {path}")
    token = text.decode("ascii", "replace").strip()
    if not SHORTEST <= len(token) <= LONGEST or not all(each.isalnum() or each in "-_" for each in token):
        raise UserMistake(
            f"{path} has no token of {SHORTEST} to {LONGEST} letters, digits, - and _. Delete it."
        )
    return token


class TokenGuesses:
    """Limits wrong tokens per client. A right token is never refused, so nobody can be locked out."""

    def __init__(self) -> None:
        self._wrong: dict[str, deque[float]] = {}

    def too_many(self, peer: str) -> bool:
        """Count one wrong token of a client; whether it has to wait now."""
        now = time.monotonic()
        times = self._wrong.pop(peer, None) or deque[float](maxlen=FEW + 1)
        times.append(now)
        self._wrong[peer] = times
        if len(self._wrong) > MOST_PEERS:
            del self._wrong[next(iter(self._wrong))]
        return len(times) > FEW and now - times[0] < WINDOW_SECONDS


LARGEST_BODY = 1_000_000
SAFE = frozenset({"GET", "HEAD"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src {style}; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action {form}; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY.format(style="'self'", form="'none'"),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


FOREIGN = "This server does not answer to that host name. Add it with: gen serve --allow-host NAME"
STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 30rem; margin: 14vh auto 0; padding: 0 1.2rem; }
h1 { font-size: 1.4rem; }
form { display: grid; gap: .6rem; margin: 1.4rem 0; }
input, button { font: inherit; padding: .5rem .7rem; border-radius: 8px; border: 1px solid #8886; }
button { background: #2f5bd0; color: #fff; border: 0; font-weight: 600; cursor: pointer; }
"""
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>GenCode</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>GenCode</h1>
<p>{why}</p>
<form action="/" method="get">
<label for="token">Token, or the whole address that <code>gen serve</code> printed</label>
<input id="token" name="token" type="password" autocomplete="off" required autofocus>
<button>Open</button>
</form>
<p>The token changes when the server restarts, unless it was started with <code>--token-file</code>.</p>
</main>
</body>
</html>
"""
_STYLE_HASH = b64encode(sha256(STYLE.encode()).digest()).decode()
FORM_POLICY = POLICY.format(style=f"'sha256-{_STYLE_HASH}'", form="'self'")


class HttpRefusal(GenCodeError):
    """A request that is refused, with its status and a sentence for the client."""

    def __init__(self, status: int, why: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.headers = headers or {}

    def response(self) -> Response:
        """The response; what else the client sends is not read."""
        return JSONResponse({"error": str(self)}, self.status, {"Connection": "close", **self.headers})

    def page(self) -> Response:
        """The response as a page, for a browser."""
        told = {"Connection": "close", "Content-Security-Policy": FORM_POLICY, **self.headers}
        return HTMLResponse(PAGE.format(why=escape(str(self)), style=STYLE), self.status, told)


class Guard:
    """Checks host, origin, size and token of every request; `hosts` are names of the server with ports."""

    def __init__(self, app: ASGIApp, keys: AccessTokens, hosts: Iterable[str], cookie: str) -> None:
        self._app = app
        self._keys = keys
        self._hosts = frozenset(host.casefold() for host in hosts)
        self._origins = frozenset(f"http://{host}" for host in self._hosts) | frozenset(
            f"https://{host}" for host in self._hosts
        )
        self._cookie = cookie
        self._guesses = TokenGuesses()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            return  # there are no web sockets, and nothing to start or stop
        try:
            app = self._admitted(scope)
        except HttpRefusal as refused:
            app = refused.page() if _wants_page(scope) else refused.response()
        await app(scope, receive, _inert(send))

    def _admitted(self, scope: Scope) -> ASGIApp:
        headers = Headers(scope=scope)
        method: str = scope["method"]
        here = _came_in_at(scope)
        self._check_host(headers, here)
        visit = method == "GET" and scope["path"] == "/"
        self._check_origin(headers, here, visit=visit)
        _check_size(headers, method)
        query: bytes = scope["query_string"]
        if b"token=" in query:
            return self._exchange(scope, query, visit=visit)
        rights, by_cookie = self._rights(scope, headers)
        if by_cookie and method not in SAFE and not _is_own(headers):
            raise HttpRefusal(
                403,
                "A change with the cookie has to come from the page. Use Authorization: Bearer.",
            )
        scope["rights"] = rights
        return self._app

    def _check_host(self, headers: Headers, here: str) -> None:
        named = headers.getlist("host")
        if len(named) != 1 or named[0].casefold() not in {*self._hosts, here}:
            raise HttpRefusal(421, FOREIGN)

    def _check_origin(self, headers: Headers, here: str, *, visit: bool) -> None:
        origins = headers.getlist("origin")
        ours = {*self._origins, f"http://{here}"}
        if any(origin.casefold() not in ours for origin in origins) or len(origins) > 1:
            raise HttpRefusal(403, "Requests from pages of other origins are refused.")
        site = headers.get("sec-fetch-site", "none")
        clicked = visit and headers.get("sec-fetch-mode") == "navigate"
        if site not in ("none", "same-origin") and not clicked:
            raise HttpRefusal(403, "Requests from pages of other sites are refused.")

    def _exchange(self, scope: Scope, query: bytes, *, visit: bool) -> Response:
        """A first visit: the token moves from the URL into a cookie that no script can read."""
        if not visit:
            raise HttpRefusal(400, "Send the token as Authorization: Bearer, not in the URL.")
        token = parse_qs(query.decode("ascii", "replace"), max_num_fields=8).get("token", [""])[0].strip()
        token = token.rpartition("token=")[2]  # of whoever gave the whole address
        if not self._keys.rights(token):
            raise self._wrong(scope)
        kept = f"{self._cookie}={token}; Path=/; HttpOnly; SameSite=Strict"
        return RedirectResponse("/", 303, headers={"Set-Cookie": kept})

    def _rights(self, scope: Scope, headers: Headers) -> tuple[frozenset[Right], bool]:
        """What the token that is shown allows, and whether it came as the cookie."""
        shown = headers.get("authorization", "")
        if shown:
            scheme, _, token = shown.partition(" ")
            if scheme.casefold() != "bearer":
                raise HttpRefusal(
                    401, "Send the token as Authorization: Bearer.", {"WWW-Authenticate": "Bearer"}
                )
            by_cookie = False
        else:
            token = _from_cookie(headers.get("cookie", ""), self._cookie)
            by_cookie = True
        if not token:
            raise HttpRefusal(
                401,
                "A token is required. gen serve prints an address with one.",
                {"WWW-Authenticate": "Bearer"},
            )
        if rights := self._keys.rights(token.strip()):
            return rights, by_cookie
        raise self._wrong(scope)

    def _wrong(self, scope: Scope) -> HttpRefusal:
        peer = scope.get("client")
        if self._guesses.too_many(str(peer[0]) if peer else ""):
            return HttpRefusal(429, "Too many wrong tokens. Try again in a minute.", {"Retry-After": "60"})
        return HttpRefusal(401, "This token is not valid.", {"WWW-Authenticate": "Bearer"})


def _came_in_at(scope: Scope) -> str:
    """The address and port of this machine at which a request came in, as a Host spells them."""
    if not scope.get("server"):
        raise HttpRefusal(421, FOREIGN)  # its peer is gone already
    host, port = scope["server"]
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        return f"[{address}]:{port}" if mapped is None else f"{mapped}:{port}"
    return f"{address}:{port}"


def _wants_page(scope: Scope) -> bool:
    """Whether a browser asks for the page itself, and not a program for data."""
    wanted = Headers(scope=scope).get("accept", "")
    return scope["method"] == "GET" and scope["path"] == "/" and "text/html" in wanted


def _from_cookie(text: str, name: str) -> str:
    try:
        found = SimpleCookie(text[:8192]).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


def _is_own(headers: Headers) -> bool:
    """Whether a browser says that the page itself asks; a foreign one was refused before."""
    return "origin" in headers or headers.get("sec-fetch-site") == "same-origin"


def _check_size(headers: Headers, method: str) -> None:
    lengths = headers.getlist("content-length")
    if any(not length.isdecimal() or int(length[:20]) > LARGEST_BODY for length in lengths):
        raise HttpRefusal(413, f"The request is too large: at most {LARGEST_BODY:,} bytes are accepted.")
    if method in SAFE and "transfer-encoding" in headers:
        raise HttpRefusal(400, "A GET or HEAD request cannot have a body.")


def _inert(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


def refusal(trouble: GenCodeError) -> HttpRefusal:
    """The HTTP status and sentence of an error."""
    match trouble:
        case HttpRefusal():
            return trouble
        case UnknownName():
            return HttpRefusal(404, str(trouble))
        case StoreTrouble():
            return HttpRefusal(503, str(trouble))
        case Conflict():
            return HttpRefusal(409, str(trouble))
        case UserMistake():
            return HttpRefusal(400, str(trouble))
        case CorruptFact():
            return HttpRefusal(409, str(trouble))
        case _:
            return HttpRefusal(409, str(trouble) or "The request failed.")

"""The application of the server: routes from the table of endpoints, OpenAPI, and the files of the page."""

from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Route

from gencode.interfaces.http import (
    agent_endpoints,
    conversation_endpoints,
    question_endpoints,
    status_endpoints,
    task_endpoints,
)
from gencode.interfaces.http.endpoints import Endpoint, ServerContext
from gencode.interfaces.http.openapi import document

INDEX = "index.html"
TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
    "woff2": "font/woff2",
    "json": "application/json",
    "webmanifest": "application/manifest+json",
}


class StaticFiles:
    """The files of the page, by exact names only."""

    def __init__(self) -> None:
        self._files = dict(_below(files("gencode.interfaces.http") / "static"))

    async def __call__(self, request: Request) -> Response:
        """One file, or 304 for a client that has it."""
        name: str = request.path_params.get("name", INDEX)
        file = self._files.get(name)
        kind = TYPES.get(name.rpartition(".")[2])
        if file is None or kind is None:
            return JSONResponse({"error": "File not found."}, 404)
        content = file.read_bytes()
        mark = f'"{sha256(content).hexdigest()[:32]}"'
        headers = {"ETag": mark, "Cache-Control": "no-cache, private"}
        if request.headers.get("if-none-match") == mark:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=kind)


def _below(folder: Traversable, prefix: str = "") -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _below(each, f"{prefix}{each.name}/")
        elif each.is_file():
            found.append((f"{prefix}{each.name}", each))
    return found


ENDPOINTS: Sequence[Endpoint] = (
    *status_endpoints.ENDPOINTS,
    *conversation_endpoints.ENDPOINTS,
    *task_endpoints.ENDPOINTS,
    *agent_endpoints.ENDPOINTS,
    *question_endpoints.ENDPOINTS,
)

Answering = Callable[[Request], Awaitable[Response]]


def web_app(context: ServerContext) -> Starlette:
    """The routes of the server."""
    told = document(ENDPOINTS)

    async def describe(_: Request) -> Response:
        return JSONResponse(told)

    static = StaticFiles()
    routes: list[BaseRoute] = [
        Route(each.path, _answering(context, each), methods=[each.method], name=each.name)
        for each in ENDPOINTS
    ]
    routes.append(Route("/openapi.json", describe, methods=["GET"]))
    routes.append(Route("/", static.__call__, methods=["GET"]))
    routes.append(Route("/static/{name:path}", static.__call__, methods=["GET"]))
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refused})
    app.router.redirect_slashes = False
    return app


def _answering(context: ServerContext, endpoint: Endpoint) -> Answering:
    async def answered(request: Request) -> Response:
        return await endpoint.respond(context, request)

    return answered


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405:
        told = {"Allow": ", ".join(_methods(request))}
        return JSONResponse({"error": "Method not allowed."}, status, told)
    return JSONResponse({"error": "Not found."}, status)


def _fits(route: Route, request: Request) -> bool:
    return route.matches(request.scope)[0] is not Match.NONE


def _methods(request: Request) -> list[str]:
    """The methods of a path, which may have several routes."""
    app: Starlette = request.app
    found = [each for each in app.routes if isinstance(each, Route) and _fits(each, request)]
    return sorted({method for each in found for method in each.methods or ()})

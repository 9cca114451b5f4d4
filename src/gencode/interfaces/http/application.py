"""The app behind the door: routes from the table of endpoints, the document, the page (surfaces, server)."""

from collections.abc import Awaitable, Callable, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Route

from gencode.interfaces.http import (
    action_endpoints,
    agent_endpoints,
    agent_file_endpoints,
    conversation_endpoints,
    question_endpoints,
    status_endpoints,
    task_endpoints,
)
from gencode.interfaces.http.endpoints import Endpoint
from gencode.interfaces.http.openapi import document
from gencode.interfaces.http.server_state import Site
from gencode.interfaces.http.static_files import StaticFiles

ENDPOINTS: Sequence[Endpoint] = (
    *status_endpoints.ENDPOINTS,
    *conversation_endpoints.ENDPOINTS,
    *task_endpoints.ENDPOINTS,
    *action_endpoints.ENDPOINTS,
    *agent_endpoints.ENDPOINTS,
    *agent_file_endpoints.ENDPOINTS,
    *question_endpoints.ENDPOINTS,
)

Answering = Callable[[Request], Awaitable[Response]]


def web_app(site: Site) -> Starlette:
    """Everything that can be asked of a server."""
    told = document(ENDPOINTS)

    async def describe(_: Request) -> Response:
        return JSONResponse(told)

    static = StaticFiles()
    routes: list[BaseRoute] = [
        Route(each.path, _answering(site, each), methods=[each.method], name=each.name) for each in ENDPOINTS
    ]
    routes.append(Route("/openapi.json", describe, methods=["GET"]))
    routes.append(Route("/", static.__call__, methods=["GET"]))
    routes.append(Route("/static/{name:path}", static.__call__, methods=["GET"]))
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refused})
    app.router.redirect_slashes = False
    return app


def _answering(site: Site, endpoint: Endpoint) -> Answering:
    async def answered(request: Request) -> Response:
        return await endpoint.asked(site, request)

    return answered


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405:
        told = {"Allow": ", ".join(_methods(request))}
        return JSONResponse({"error": "This is not asked in that way."}, status, told)
    return JSONResponse({"error": "There is nothing here."}, status)


def _fits(route: Route, request: Request) -> bool:
    return route.matches(request.scope)[0] is not Match.NONE


def _methods(request: Request) -> list[str]:
    """Every way in which a path can be asked; one path may have several routes."""
    app: Starlette = request.app
    found = [each for each in app.routes if isinstance(each, Route) and _fits(each, request)]
    return sorted({method for each in found for method in each.methods or ()})

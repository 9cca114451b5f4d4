"""The files of the web page: read from the package, by exact names only (surfaces, server)."""

from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

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
    """The page and what belongs to it. A name that is not in the folder is not there, whatever it spells."""

    def __init__(self) -> None:
        self._files = dict(_below(files("gencode.interfaces.http") / "static"))

    async def __call__(self, request: Request) -> Response:
        """One file; not again for who has it already."""
        name: str = request.path_params.get("name", INDEX)
        file = self._files.get(name)
        kind = TYPES.get(name.rpartition(".")[2])
        if file is None or kind is None:
            return JSONResponse({"error": "There is no such file."}, 404)
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

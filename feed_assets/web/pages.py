"""The routes of the pages at `/`, `/workflows`, `/runs` and `/sources`: their files, from memory.

Their headers let a browser load nothing from elsewhere. Not here: what a page shows, which it asks the
API for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

STATIC: Final = Path(__file__).parent / "static"
PAGES: Final = {
    "index.html": "/", "workflows.html": "/workflows", "runs.html": "/runs", "sources.html": "/sources",
}  # fmt: skip
ICON: Final = "icon.svg"
"""Browsers ask for it at `/favicon.ico` where a page names none, as the API's documentation does."""
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""`no-cache`: a browser asks whether a file has changed; after an upgrade it never mixes two versions."""


def routes() -> list[BaseRoute]:
    """A route for each file of the pages."""
    files = sorted(STATIC.iterdir())
    found = [Route(PAGES.get(each.name, f"/static/{each.name}"), _file(each)) for each in files]
    return [*found, Route("/favicon.ico", _file(STATIC / ICON))]


def _file(path: Path) -> Callable[[Request], Awaitable[Response]]:
    content = path.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'

    async def file(request: Request) -> Response:
        headers = {**HEADERS, "ETag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=_TYPES[path.suffix])

    return file

"""What a page says was just done: in its address, after a form was sent, with a seal.

Without the seal, a link of anybody's could make a page of the console say that something was changed.
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import RedirectResponse

from kshare.web.access import session_cookie
from kshare.web.console import Console
from kshare.web.rendering import query

_SEAL = "seal"


def redirect_with_note(
    console: Console, request: Request, path: str, note: Mapping[str, str]
) -> RedirectResponse:
    """To this page, which shows the note."""
    seal = console.access.seal(*_parts(request, path, note))
    return RedirectResponse(path + query({**note, _SEAL: seal}), 303)


def note_of(console: Console, request: Request, *names: str) -> dict[str, str]:
    """These parts of the note, empty if they are missing; no parts unless we have written it for this session."""
    said = request.query_params
    note = {name: value for name, value in said.items() if name != _SEAL}
    if not console.access.is_sealed(said.get(_SEAL, ""), *_parts(request, request.url.path, note)):
        return {}
    return {name: note.get(name, "") for name in names}


def _parts(request: Request, path: str, note: Mapping[str, str]) -> list[str]:
    shown = sorted((name, value) for name, value in note.items() if value)
    return [
        request.cookies.get(session_cookie(request.headers), ""),
        path,
        *(part for pair in shown for part in pair),
    ]

"""The pages of a capture: what the linter has found, the conversation, and each exchange with every byte named."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kshare.web.byte_pages import BytePage, byte_page
from kshare.web.console import Console, owner_of
from kshare.web.kept_inputs import KeptInputs
from kshare.web.loaded_input import LoadedCapture
from kshare.web.paging import page_of
from kshare.web.turns import SlowWork
from kshare.wire.conversation import ListedExchange, ListedFinding

_LINES_ON_PAGE, _CONNECTIONS_ON_PAGE = 100, 20
_MEMBERS_NAMED = 3
_MOST_APIS = 200
_Line = ListedExchange | ListedFinding


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which lines to show."""

    api: str
    connection: str
    text: str
    """A part of the line, in whatever case."""
    is_failed: bool

    def wants(self, line: _Line) -> bool:
        if self.text and self.text not in "".join(text for text, _ in line.line).casefold():
            return False
        if isinstance(line, ListedFinding):
            return not (self.api or self.connection or self.is_failed)
        return (
            self.api in ("", line.api)
            and self.connection in ("", str(line.connection))
            and (line.is_failed or not self.is_failed)
        )


def routes(console: Console, kept: KeptInputs, work: SlowWork) -> list[Route]:
    def capture_of(request: Request) -> LoadedCapture:
        found = kept.get(owner_of(request), request.query_params.get("id", ""), LoadedCapture)
        if found is None:
            raise HTTPException(404, "this capture isn't kept any longer: load it again")
        return found

    async def show(request: Request) -> Response:
        capture, parameters = capture_of(request), request.query_params
        one = capture.conversation
        wanted = _Wanted(
            parameters.get("api", ""),
            parameters.get("connection", ""),
            parameters.get("q", "").casefold(),
            bool(parameters.get("failed")),
        )
        lines = [line for line in one.lines if wanted.wants(line)]
        return console.render(
            request,
            "capture.jinja",
            is_live=False,
            capture=capture,
            conversation=one,
            rules=one.rules,
            members_named=_MEMBERS_NAMED,
            wanted=wanted,
            apis=sorted({line.api for line in one.exchanges})[:_MOST_APIS],
            page=page_of(lines, parameters.get("page"), _LINES_ON_PAGE),
            connections=page_of(one.connections, parameters.get("connections"), _CONNECTIONS_ON_PAGE),
            began=one.lines[0].time if one.lines else 0.0,
            is_finding=lambda line: isinstance(line, ListedFinding),
        )

    async def show_exchange(request: Request) -> Response:
        capture, parameters = capture_of(request), request.query_params
        exchanges = capture.conversation.exchanges
        number = parameters.get("number", "")
        if not (number.isascii() and number.isdigit() and len(number) < 10 and int(number) < len(exchanges)):
            raise HTTPException(404, f"the capture has no exchange {number[:20]!r} among those listed")
        one = exchanges[int(number)]
        frames = one.frames

        def opened() -> dict[str, BytePage]:
            named = frames.named() if frames else {}
            return {role: byte_page(each, parameters.get(role)) for role, each in named.items()}

        return console.render(
            request,
            "exchange.jinja",
            is_live=False,
            capture=capture,
            one=one,
            sides=await work.run(opened),
            began=capture.conversation.lines[0].time,
            last=len(exchanges) - 1,
            address={"id": parameters.get("id", "")},
        )

    return [Route("/wire/capture", show), Route("/wire/exchange", show_exchange)]

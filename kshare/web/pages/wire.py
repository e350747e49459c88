"""The wire: bytes that are pasted or loaded, with every byte named. The pages of captures are in `captures`.

Short input becomes part of the page's address, which can be shared, and isn't kept. Longer input is kept in memory for
a while. So is input with passwords, because addresses get into logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kshare.capture import CaptureError
from kshare.errors import ConfigError
from kshare.web.byte_pages import BytePage, byte_page
from kshare.web.console import Console, owner_of, text_of
from kshare.web.kept_inputs import KeptInputs
from kshare.web.loaded_input import (
    MOST_IN_LINK,
    HintTexts,
    LoadedCapture,
    LoadedMessage,
    hint_texts,
    loaded,
    name_message,
    packed,
    pasted,
    unpacked,
)
from kshare.web.paging import Page, page_of
from kshare.web.rendering import query
from kshare.web.turns import SlowWork
from kshare.wire.named_input import InputGuess, NamedInput, NamedPart
from kshare.wording import counted

_MOST_IN_REDIRECT = 2 * 1024
"""Bytes. Many proxies take responses only with short headers."""
_MOST_SHOWN_AGAIN = 64 * 1024
_LONGEST_NAME = 100
_MOST_GUESSES = 5
_MOST_PROBLEMS = 20
_KINDS = ("request", "response", "records", "state")
EXAMPLES = {
    "a consumer's request for records": (
        "AAAAZgBOAAIAAAAHAAJtZQAHb3JkZXJzF0FBRUNBd1FGQmdjSUNRb0xEQTBPRHcAAAAAAAAB9AAAAAB_____AAAAAA"
        "AAAAAAAAIAAQIDBAUGBwgJCgsMDQ4PAwAAAAABAAAAAAEBAAABAA"
    ),
    "the broker's response with two records": (
        "AAAAuwAAAAcAAAAAAAAAAAAAdTACAAECAwQFBgcICQoLDA0ODwIAAAAAAAAAAAAAAAAAAAAAAAAAbgAAAAAAAABkAA"
        "AAYf____8CARwzWgAAAAAAAQAAAZd0INwAAAABl3Qg3AD__________________wAAAAIuAAAAAmsOb3JkZXIgMAIK"
        "dHJhY2UE_wAuAAACAmsOb3JkZXIgMQIKdHJhY2UE_wACAAAAAAAAAGQAAAAAAAAAZQABAAAAAQA"
    ),
}


@dataclass(frozen=True, slots=True)
class _Shown:
    """What there is to see of a message."""

    found: NamedInput
    parts: Page[NamedPart]
    part: NamedPart
    bytes: BytePage


def routes(console: Console, kept: KeptInputs, work: SlowWork) -> list[Route]:
    def start(
        request: Request, problem: str = "", text: str = "", hints: HintTexts | None = None
    ) -> Response:
        """The forms, with the reason why the last one didn't work."""
        return console.render(
            request,
            "wire.jinja",
            status=400 if problem else 200,
            is_live=False,
            problem=problem,
            text=text if len(text) <= _MOST_SHOWN_AGAIN else "",
            hints=hints or HintTexts(),
            examples=EXAMPLES,
            kinds=_KINDS,
        )

    async def show_message(request: Request, message: LoadedMessage, address: dict[str, str]) -> Response:
        """`address` are the parameters by which the page knows the bytes."""
        wanted = request.query_params
        hints = hint_texts(wanted)

        def shown() -> _Shown:
            found = name_message(message, hints)
            parts = page_of(found.parts, wanted.get("part"), 1)
            (part,) = parts.rows
            return _Shown(found, parts, part, byte_page(part.named, wanted.get("page")))

        try:
            one = await work.run(shown)
        except ConfigError as problem:
            return start(request, str(problem), message.data.hex(" "), hints)
        doubt = one.found.doubt or _doubt(one.part, is_told=hints != HintTexts())

        def reading(guess: InputGuess) -> str:
            return query({**address, **_parameters_of(guess)})

        is_shared = message.given <= MOST_IN_LINK and not message.is_masked
        return console.render(
            request,
            "wire_message.jinja",
            is_live=False,
            message=message,
            shown=one,
            problems=one.part.named.problems[:_MOST_PROBLEMS],
            more_problems=len(one.part.named.problems) - _MOST_PROBLEMS,
            address=address,
            hints=hints,
            kinds=_KINDS,
            doubt=doubt,
            versions=[] if doubt else [(guess, reading(guess)) for guess in _other_versions(one.part)],
            guesses=[
                (guess, reading(guess), guess.title in one.part.alternatives)
                for guess in _others(one.part.guesses)
            ],
            link="/wire" + query({"bytes": packed(message.data), **hints.parameters}) if is_shared else None,
        )

    async def show(request: Request) -> Response:
        given = request.query_params.get("bytes", "")
        if not given:
            return start(request)
        try:
            message = unpacked(given)
        except ConfigError as problem:
            return start(request, str(problem))
        return await show_message(request, message, {"bytes": given})

    async def show_kept(request: Request) -> Response:
        key = request.query_params.get("id", "")
        message = kept.get(owner_of(request), key, LoadedMessage)
        if message is None:
            raise HTTPException(404, "these bytes aren't kept any longer: paste or load them again")
        return await show_message(request, message, {"id": key})

    async def load_and_close(request: Request) -> Response:
        try:
            return await load(request)
        finally:
            await request.close()  # and with it the file

    async def load(request: Request) -> Response:
        form = await _form(console, request)
        text, file, hints = text_of(form, "text"), form.get("file"), hint_texts(form)
        try:
            if isinstance(file, UploadFile) and file.filename:
                name, opened = file.filename[:_LONGEST_NAME], file.file
                found = await work.run(lambda: loaded(opened, name))
            else:
                found = await work.run(lambda: pasted(text, hints))
        except (ConfigError, CaptureError) as problem:
            return start(request, str(problem), text, hints)
        if isinstance(found, LoadedCapture):
            return _redirect("/wire/capture", id=kept.keep(owner_of(request), found, found.size))
        if found.given <= _MOST_IN_REDIRECT and not found.is_masked:
            return _redirect("/wire", bytes=packed(found.data), **hints.parameters)
        key = kept.keep(owner_of(request), found, len(found.data))
        return _redirect("/wire/message", id=key, **hints.parameters)

    return [
        Route("/wire", show),
        Route("/wire", load_and_close, methods=["POST"]),
        Route("/wire/message", show_kept),
    ]


def _doubt(part: NamedPart, *, is_told: bool) -> str:
    """Why the best guess may be wrong; empty if there is no reason to think so. `is_told`: with hints of the user's."""
    best = part.guesses[0]
    if not best.is_whole and not is_told:
        return (
            f"This reading is uncertain: the bytes can't be read to their end as {best.title}. They may be cut off, or "
            "be something else"
        )
    others = sorted({title.partition(" ")[0] for title in part.alternatives} - {best.message})
    if not others:
        return ""
    fit = "fits" if len(others) == 1 else "fit"
    return (
        f"This reading is uncertain: {counted(len(others), 'other message')} {fit} these bytes about as well, such as "
        f"{others[0]}"
    )


def _other_versions(part: NamedPart) -> list[InputGuess]:
    """Other versions of the message that fit as well: many differ in nothing that these bytes contain."""
    best, *others = part.guesses
    return [other for other in others if other.message == best.message and other.title in part.alternatives]


def _others(guesses: Sequence[InputGuess]) -> list[InputGuess]:
    """Other readings than the first. Those that break off are only of use if there is no other."""
    others = guesses[1:]
    return ([other for other in others if other.is_whole] or [*others])[:_MOST_GUESSES]


async def _form(console: Console, request: Request) -> FormData:
    try:
        return await console.form(request, is_change=False)
    except HTTPException as problem:
        if problem.status_code == 400:  # the parser's reason, in its own terms
            raise HTTPException(
                400, "this form can't be read; if the text is long, load it as a file"
            ) from None
        raise


def _parameters_of(guess: InputGuess) -> dict[str, object]:
    """The hints that lead to this guess."""
    match guess.kind:
        case "response":
            api = guess.message.removesuffix("Response")
            return {"kind": "response", "api": api, "version": guess.version}
        case "request" | "records":
            return {"kind": guess.kind}
    return {"kind": guess.message, "version": guess.version}


def _redirect(path: str, **parameters: object) -> Response:
    return RedirectResponse(path + query(parameters), 303)

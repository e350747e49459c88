"""Runs `kshare encode`: turns JSON into a frame or a body.

JSON with a header becomes a frame. Keys and values of state records (`"kind": "state"`) begin with their type or
version, as they are stored.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from textwrap import shorten
from typing import Any

from kshare.cli.terminal.failure import Failure, closed_pipe
from kshare.cli.terminal.standard_input import piped_input, standard_input
from kshare.errors import KshareError
from kshare.protocol import by_name
from kshare.protocol.frames import begin_frame, end_frame, request_header_version, response_header_version
from kshare.protocol.message import Message

_SHOWN = 80


def run_encode(source: str | None, coding: str) -> None:
    _write(_encoded(_document(source)), coding)


def _document(source: str | None) -> dict[str, Any]:
    if source is None:
        text = piped_input("no input: give JSON or a file name, or pipe JSON in").read()
    elif source == "-":
        text = standard_input().read()
    elif source.lstrip().startswith("{"):
        text = source
    else:
        try:
            text = Path(source).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise Failure(f"{shorten(source, _SHOWN)!r}: no such file, and it isn't JSON") from None
        except UnicodeDecodeError:
            raise Failure(f"{source}: this is not JSON, but bytes: did you mean kshare decode?") from None
    try:
        form = json.loads(text)
    except json.JSONDecodeError as problem:
        raise Failure(f"this is not JSON: {problem}") from None
    if not isinstance(form, dict) or not isinstance(form.get("message"), str):
        raise Failure('the JSON needs "message", "version" and "body", as decode --json writes them')
    return form


def _encoded(form: dict[str, Any]) -> bytes:
    version = form.get("version")
    if not isinstance(version, int):
        raise Failure(f'"version" must be a number, not {json.dumps(version)}')
    message = by_name.from_json(form["message"], version, form.get("body", {}))
    body = message.encode(version)
    if "header" in form:
        return _frame(message, version, form["header"], body)
    if form.get("kind") == "state":
        first = message.API_KEY if message.NAME.endswith("Key") else version
        return first.to_bytes(2, "big", signed=True) + body
    return body


def _frame(message: Message, version: int, header: Any, body: bytes) -> bytes:
    if not isinstance(header, dict):
        raise Failure(f'"header" must be an object, not {json.dumps(header)}')
    is_flexible = message.is_flexible(version)
    key = message.API_KEY
    if message.NAME.endswith("Request"):
        name, header_version = "RequestHeader", request_header_version(key, version, is_flexible)
        header = {**header, "requestApiKey": key, "requestApiVersion": version}
    else:
        name, header_version = "ResponseHeader", response_header_version(key, is_flexible)
    try:
        head = by_name.from_json(name, header_version, header)
    except KshareError as problem:
        raise Failure(f"header: {problem}") from None
    frame = begin_frame()
    head.append_to(frame, header_version)
    frame += body
    return bytes(end_frame(frame))


def _write(data: bytes, coding: str) -> None:
    if coding == "binary" and sys.stdout.isatty():
        raise Failure("binary output would garble the terminal: redirect it to a file, or use --output hex")
    text = {
        "hex": data.hex(),
        "base64": base64.b64encode(data).decode(),
        "escaped": "".join(f"\\x{byte:02x}" for byte in data),
    }
    with closed_pipe():
        if coding == "binary":
            sys.stdout.buffer.write(data)
        else:
            sys.stdout.write(f"{text[coding]}\n")
        sys.stdout.flush()

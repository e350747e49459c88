"""One file per API, named after it. Each has `async def handle(request, call)`: the response, or None for no response.

If a whole request is refused, `handle` raises RequestError. Its module's docstring is the changelog of that API: one
line per version, with the fields that were added and removed. Handlers are imported when first needed, so that a broker
starts quickly.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import Any

from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.protocol.api_keys import ApiKey
from kshare.protocol.message import Message

Handle = Callable[[Any, Call], Awaitable[Message | None]]


async def respond(request: Any, call: Call) -> Message | None:
    try:
        return await handler_for(call.api_key)(request, call)
    except RequestError as refusal:
        response: Any = request.RESPONSE()
        response.error_code = refusal.code
        if hasattr(response, "error_message"):
            response.error_message = refusal.message
        return response  # type: ignore[no-any-return]


@cache
def handler_for(api_key: int) -> Handle:
    handle: Handle = import_module(f"{__name__}.{ApiKey(api_key).name.lower()}").handle
    return handle

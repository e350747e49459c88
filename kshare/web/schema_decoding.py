"""Decodes records with the schemas of a registry, for pages.

Avro is decoded by Confluent's deserializer, in another process. JSON needs no schema. Protobuf can't be decoded without
compiled classes.
"""

from __future__ import annotations

import anyio

from kshare.web.content import Content, content, visible
from kshare.web.decoding_process import DecodingFailed, DecodingProcess

_MAGIC, _PREFIX = 0, 5
_LIMIT_S = 5.0
_PAGE_S = 10.0
_MISSING = "decoding needs Confluent's client: pip install 'kshare[schema-registry]' (in a clone: '.[schema-registry]')"
_NOT_CONFIGURED = "no schema registry is configured: start the console with --schema-registry URL"


class SchemaDecoder:
    """`url` may contain a password: it is never shown. `close` it at the end."""

    def __init__(self, url: str | None, limit_s: float = _LIMIT_S, page_s: float = _PAGE_S) -> None:
        self._url = url
        self._page_s = page_s
        self._process = DecodingProcess(url or "", limit_s)

    @property
    def problem(self) -> str | None:
        """Why nothing can be decoded."""
        if self._url is None:
            return _NOT_CONFIGURED
        try:
            import confluent_kafka.schema_registry.avro  # noqa: F401
        except ImportError:
            return _MISSING
        return None

    def page_deadline(self) -> float:
        """Until when records of a page that begins now are decoded."""
        return anyio.current_time() + self._page_s

    async def content(self, data: bytes, topic: str, part: str, limit: int, deadline: float) -> Content:
        """Decoded; as it is, with a note, if that isn't possible."""
        if len(data) < _PREFIX or data[0] != _MAGIC:
            return _with_note(data, limit, "doesn't begin with a schema id")
        if anyio.current_time() >= deadline:
            return _with_note(data, limit, "not decoded: other records of this page took too long")
        try:
            response = await self._process.decode(data, topic, part, limit, deadline)
        except DecodingFailed as error:
            return _with_note(data, limit, f"can't be decoded: {error}")
        if "problem" in response:
            return _with_note(data, limit, response["problem"])
        return Content(visible(response["text"]), len(data), response["is_cut"], visible(response["note"]))

    def close(self) -> None:
        """Whoever waits for a record gets it as it is."""
        self._process.close()


def _with_note(data: bytes, limit: int, note: str) -> Content:
    plain = content(data, "auto", limit)
    return Content(plain.text, plain.size, plain.is_cut, visible(note))

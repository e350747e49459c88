"""Decodes records with the schemas of a registry, for pages.

Avro is decoded by Confluent's deserializer. JSON needs no schema. Protobuf can't be decoded without compiled classes.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import anyio
import anyio.to_thread

from kshare.web.content import Content, content, encoded, laid_out, visible

_MAGIC, _PREFIX = 0, 5
_LIMIT_S = 5.0
_MISSING = "decoding needs Confluent's client: pip install 'kshare[schema-registry]'"
_NOT_CONFIGURED = "no schema registry is configured: start the console with --schema-registry URL"


class SchemaDecoder:
    """`url` may contain a password: it is never shown."""

    def __init__(self, url: str | None) -> None:
        self._url = url
        self._client: Any = None
        self._avro: Any = None

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

    async def content(self, data: bytes, topic: str, part: str, limit: int) -> Content:
        """Decoded; as it is, with a note, if that isn't possible."""
        if len(data) < _PREFIX or data[0] != _MAGIC:
            return _with_note(data, limit, "doesn't begin with a schema id")
        note = None
        with anyio.move_on_after(_LIMIT_S):
            try:
                decode = partial(self._decode, data, topic, part, limit)
                return await anyio.to_thread.run_sync(decode, abandon_on_cancel=True)
            except Exception as error:  # Confluent's client and fastavro raise many kinds
                note = f"can't be decoded: {self._without_password(str(error)) or type(error).__name__}"
        return _with_note(data, limit, note or "the schema registry doesn't respond")

    def _decode(self, data: bytes, topic: str, part: str, limit: int) -> Content:
        from confluent_kafka.schema_registry import SchemaRegistryClient
        from confluent_kafka.schema_registry.avro import AvroDeserializer
        from confluent_kafka.serialization import MessageField, SerializationContext

        if self._client is None:
            self._client = SchemaRegistryClient({"url": self._url, "timeout": _LIMIT_S, "max.retries": 0})
            self._avro = AvroDeserializer(self._client)
        number = int.from_bytes(data[1:_PREFIX], "big")
        kind = self._client.get_schema(number).schema_type or "AVRO"
        note = f"{kind}, schema {number}"
        if kind == "JSON":
            text = data[_PREFIX : _PREFIX + limit].decode("utf-8", "backslashreplace")
            shown = (laid_out(text, limit) if len(data) <= limit else None) or text
        elif kind == "AVRO":
            field = MessageField.KEY if part == "key" else MessageField.VALUE
            shown = encoded(self._avro(data, SerializationContext(topic, field)), limit)
        else:
            return _with_note(data, limit, f"{note}: the console decodes Avro and JSON only")
        is_cut = len(shown) > limit or (kind == "JSON" and len(data) > limit + _PREFIX)
        return Content(visible(shown[:limit]), len(data), is_cut, note)

    def _without_password(self, text: str) -> str:
        split = urlsplit(self._url or "")
        bare = urlunsplit(split._replace(netloc=split.netloc.rpartition("@")[2]))
        for secret in (self._url, split.netloc if split.password else None, split.password):
            text = text.replace(secret, bare if secret == self._url else "***") if secret else text
        return text


def _with_note(data: bytes, limit: int, note: str) -> Content:
    plain = content(data, "auto", limit)
    return Content(plain.text, plain.size, plain.is_cut, visible(note))

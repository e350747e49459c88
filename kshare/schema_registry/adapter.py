"""Makes a deserializer for a consumer from one of Confluent's: Avro, JSON Schema or Protobuf, sync or async.

Confluent's sync deserializers block while they fetch a schema. So they run in a worker thread until they have read a
record with the same schema id; after that the schema is in their cache, and they are called directly.

Decides which errors are about a record, and which are about the registry: those must not cost a record its life.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

import anyio.to_thread

from kshare.client.deserializer_calls import DeserializerContext
from kshare.errors import ConfigError, KshareError

try:
    from confluent_kafka.schema_registry import SchemaRegistryError
    from confluent_kafka.schema_registry.serde import AsyncBaseDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext
except ImportError as error:
    raise ImportError(
        "kshare.schema_registry needs Confluent's client: pip install 'kshare[schema-registry]' "
        f"(in a clone: '.[schema-registry]'): {error}"
    ) from error

RegistryDeserializer = Callable[[bytes, DeserializerContext], Coroutine[Any, Any, Any]]

_FIELDS = {"key": MessageField.KEY, "value": MessageField.VALUE}
_HEADERS = {"key": "__key_schema_id", "value": "__value_schema_id"}
_ID_SIZES = {0: 5, 1: 17}
"""How long the schema id at the beginning of the bytes is, by their first byte: a number, or a GUID."""
_MOST_KNOWN = 1000
"""As many schemas as Confluent's client caches."""
_NOT_FOUND = 404
_OUTAGES = ("OSError", "TransportError", "OAuthTokenError")
"""Names of errors, and of their base classes. Confluent's client uses one of two HTTP libraries."""
_CLIENT = ".schema_registry_client"
"""How the modules with the sync and the async client are called."""


class RegistryUnavailable(KshareError):
    """The schema registry can't be reached, or refuses to respond, so no record can be deserialized now."""


def from_registry(deserializer: Callable[..., Any]) -> RegistryDeserializer:
    """Make a `key_deserializer` or `value_deserializer` from one of Confluent's deserializers.

    Async ones (AsyncAvroDeserializer and so on) work on asyncio only.
    """
    if inspect.iscoroutine(deserializer):
        deserializer.close()
        raise ConfigError(
            "from_registry got a coroutine: write `from_registry(await AsyncAvroDeserializer(...))`"
        )
    if not callable(deserializer):
        raise ConfigError(f"from_registry needs one of Confluent's deserializers, not {deserializer!r}")
    unblocked = None if isinstance(deserializer, AsyncBaseDeserializer) else _Unblocked(deserializer)

    async def deserialize(data: bytes, context: DeserializerContext) -> Any:
        # Confluent looks for the schema id only in a list or a dictionary.
        confluents = SerializationContext(context.topic, _FIELDS[context.part], list(context.headers))
        try:
            if unblocked is None:
                _require_asyncio()
                return await deserializer(data, confluents)
            return await unblocked.call(data, confluents, _schema_of(data, context))
        except Exception as error:
            if _is_outage(error):
                raise RegistryUnavailable(f"the schema registry isn't available: {error}") from error
            raise

    return deserialize


def _require_asyncio() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigError(
            "Confluent's async deserializers work on asyncio only: use the sync ones, such as AvroDeserializer, which "
            "don't block the event loop either"
        ) from None


class _Unblocked:
    """Calls a sync deserializer without blocking the event loop while it fetches a schema."""

    def __init__(self, deserializer: Callable[..., Any]) -> None:
        self._deserializer = deserializer
        self._known: set[_Schema] = set()
        """The schemas of records that were read."""
        self._fetching = threading.Lock()
        """Held while a schema is fetched, so that each is fetched once."""

    async def call(self, data: bytes, context: SerializationContext, schema: _Schema) -> Any:
        if schema in self._known:
            return self._deserializer(data, context)
        found = await anyio.to_thread.run_sync(self._fetch, data, context, abandon_on_cancel=True)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known.add(schema)
        return found

    def _fetch(self, data: bytes, context: SerializationContext) -> Any:
        with self._fetching:
            return self._deserializer(data, context)


class _Schema(NamedTuple):
    topic: str
    part: str
    id: bytes | None


def _schema_of(data: bytes, context: DeserializerContext) -> _Schema:
    for name, value in context.headers:
        if name == _HEADERS[context.part]:
            return _Schema(context.topic, context.part, value)
    return _Schema(context.topic, context.part, data[: _ID_SIZES.get(data[0], 0)] if data else None)


def _is_outage(error: BaseException) -> bool:
    if isinstance(error, SchemaRegistryError):
        # 40401, 40402 and 40403 mean an unknown subject, version or schema.
        return error.error_code is None or error.error_code // 100 != _NOT_FOUND
    cause = error.__cause__ or error.__context__
    names = {kind.__name__ for kind in type(error).__mro__}
    if not names.isdisjoint(_OUTAGES) or _is_about_a_response(error):
        return True
    return cause is not None and _is_outage(cause)


def _is_about_a_response(error: BaseException) -> bool:
    """Whether Confluent's client couldn't read what came with status 200, such as the login page of a proxy.

    Its errors are the same as for records, for example JSONDecodeError. So we look at where it was raised.
    """
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__", "").endswith(_CLIENT) for frame, _ in frames)

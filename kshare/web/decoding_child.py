"""Runs in a process of its own: decodes records with the schemas of a registry, one request a line of JSON.

A few bytes can stand for any number of items, or nest so deeply that the process crashes. So its memory is limited
here, and `decoding_process` ends it if a record takes too long.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, BinaryIO

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kshare.web.content import encoded, laid_out
from kshare.web.registry_url import without_passwords

MOST_MEMORY = 128 << 20
"""Of data. Before the first record, 40 MB are used; libraries, which aren't counted, take another 20."""
_REGISTRY_S = 3.0
_PREFIX = 5
_LONGEST_PROBLEM = 2_000


def main() -> None:
    """The first line says where the registry is: a command line, which others can see, may not contain its password."""
    questions, responses = _questions(sys.stdin.buffer), _own_output()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    limit_memory()
    decoder = _Decoder(json.loads(next(questions))["url"])
    _response(responses, {})
    for question in questions:
        _response(responses, decoder.response(json.loads(question)))


class _Decoder:
    def __init__(self, url: str) -> None:
        self._url = url
        self._client = SchemaRegistryClient({"url": url, "timeout": _REGISTRY_S, "max.retries": 0})
        self._avro = AvroDeserializer(self._client)

    def decode(self, data: bytes, topic: str, part: str, limit: int) -> dict[str, Any]:
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
            return {"problem": f"{note}: the console decodes Avro and JSON only"}
        is_cut = len(shown) > limit or (kind == "JSON" and len(data) > limit + _PREFIX)
        return {"text": shown[:limit], "is_cut": is_cut, "note": note}

    def response(self, asked: dict[str, Any]) -> dict[str, Any]:
        data = base64.b64decode(asked["data"])
        try:
            return self.decode(data, asked["topic"], asked["part"], asked["limit"])
        except MemoryError:
            return {"problem": "can't be decoded: its bytes expand to too much data for the decoder's memory"}
        except Exception as error:  # Confluent's client and fastavro raise many kinds
            text = without_passwords(str(error), self._url)[:_LONGEST_PROBLEM]
            return {"problem": f"can't be decoded: {text or type(error).__name__}"}


def _questions(stream: BinaryIO) -> Iterator[bytes]:
    """Once the console is gone, however it has ended, so is this process, whatever it is waiting for."""
    lines: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:
        try:
            for line in stream:
                lines.put(line)
        finally:
            os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield lines.get()


def _own_output() -> BinaryIO:
    """The pipe to the console. What libraries print goes elsewhere."""
    pipe = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(pipe, "wb")


def limit_memory() -> None:
    with suppress(ImportError):  # Windows has no such limits
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(ValueError, OSError):  # a lower one is set
            resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))


def _response(stream: BinaryIO, response: dict[str, Any]) -> None:
    stream.write(json.dumps(response).encode() + b"\n")
    stream.flush()

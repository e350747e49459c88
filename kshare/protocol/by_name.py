"""Encodes and decodes any message by name and version, for tools that know these only at run time."""

from __future__ import annotations

from typing import Any

from kshare.errors import KshareError
from kshare.protocol import json_form, messages
from kshare.protocol.message import Message
from kshare.protocol.primitives import Buffer
from kshare.wording import suggestion

__all__ = ["UnknownMessageError", "decode", "encode", "from_json", "message_class", "to_json"]


class UnknownMessageError(KshareError, LookupError):
    """No message has this name; the text suggests the closest one."""


def message_class(name: str) -> type[Message]:
    """The class of a message by Kafka's name: `ShareFetchRequest`, `ShareSnapshotValue`, ..."""
    if name not in messages.MODULES:
        hint = suggestion(name, messages.MODULES)
        raise UnknownMessageError(f"no message is called {name!r}" + (f"; {hint}" if hint else ""))
    cls: type[Message] = getattr(messages, name)
    return cls


def decode(name: str, version: int, data: Buffer) -> Message:
    """Decodes the body of a message, without size or header."""
    return message_class(name).decode(data, version)


def encode(message: Message, version: int) -> bytes:
    return message.encode(version)


def to_json(message: Message, version: int) -> dict[str, Any]:
    """The message in the form of Kafka's JsonConverters."""
    return json_form.to_json(message, version)


def from_json(name: str, version: int, obj: Any) -> Message:
    """The message that a JSON object describes."""
    return json_form.from_json(message_class(name), version, obj)

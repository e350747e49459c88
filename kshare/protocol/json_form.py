"""Messages as JSON values, in the form of Kafka's own converters.

Names are lowerCamel. Only fields of the version appear; tagged fields with their default value are left out. UUIDs have
Kafka's 22 characters; bytes and records are base64. As in Kafka, unknown tagged fields have no JSON form.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, TypeVar

from kshare.errors import EncodeError
from kshare.protocol.message import Message, version_problem
from kshare.protocol.spec import Spec, field_path, specs_of, struct_named
from kshare.protocol.values import problem
from kshare.wording import suggestion

MessageT = TypeVar("MessageT", bound=Message)


def uuid_text(value: bytes) -> str:
    """A uuid as Kafka shows it: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def uuid_bytes(text: str) -> bytes:
    """The reverse of `uuid_text`; ValueError for anything else."""
    value = base64.urlsafe_b64decode(text + "==")
    if len(value) != 16:
        raise ValueError(f"{text!r} is not a Kafka UUID (22 characters of URL-safe base64)")
    return value


# --- message → JSON


def to_json(message: Message, version: int) -> dict[str, Any]:
    """Converts a message. Raises EncodeError, as encoding does, if a field isn't in the version."""
    if reason := version_problem(type(message), version):
        raise EncodeError("", reason)
    return _struct_json(message, version, "")


def _struct_json(value: Any, version: int, path: str) -> dict[str, Any]:
    cls = type(value)
    fresh = cls()
    form: dict[str, Any] = {}
    for spec in specs_of(cls):
        item = getattr(value, spec.attribute)
        where = field_path(path, spec.json_name)
        is_default = item == getattr(fresh, spec.attribute)
        if not spec.is_in(version):
            if not spec.is_ignorable and not is_default:
                raise EncodeError(where, f"version {version} can't carry it")
        elif not (is_default and spec.is_tagged_in(version)):
            form[spec.json_name] = _value_json(spec, item, version, where)
    return form


def _value_json(spec: Spec, item: Any, version: int, where: str) -> Any:
    if item is None:
        return None
    if spec.is_array:
        if spec.type == "[]int8":
            return [value - 256 if value > 127 else value for value in item]
        element = spec._replace(type=spec.element)
        return [_value_json(element, value, version, f"{where}[{i}]") for i, value in enumerate(item)]
    if spec.type[0].isupper():
        return _struct_json(item, version, where)
    if spec.type == "uuid":
        return uuid_text(item)
    if spec.type in ("bytes", "records"):
        return base64.b64encode(item).decode()
    return item


# --- JSON → message


def from_json(cls: type[MessageT], version: int, form: Any) -> MessageT:
    """Converts a JSON object. Missing fields get their default; fields that the version doesn't have are refused."""
    if reason := version_problem(cls, version):
        raise EncodeError("", reason)
    message = _struct_value(cls, version, form, "")
    assert isinstance(message, cls)
    return message


def _struct_value(cls: type[Any], version: int, form: Any, path: str) -> Any:
    if not isinstance(form, dict):
        raise EncodeError(path or cls.__name__, f"must be an object, not {type(form).__name__}")
    specs = {spec.json_name: spec for spec in specs_of(cls) if spec.is_in(version)}
    values = {}
    for name, item in form.items():
        if name not in specs:
            raise EncodeError(field_path(path, name), _no_such_field(cls, name, list(specs), version))
        spec = specs[name]
        values[spec.attribute] = _value(cls, spec, version, item, field_path(path, name))
    return cls(**values)


def _no_such_field(cls: type[Any], name: str, known: list[str], version: int) -> str:
    if any(spec.json_name == name for spec in specs_of(cls)):
        return f"version {version} can't carry it"
    hint = suggestion(name, known)
    return f"{cls.__name__} has no such field" + (f"; {hint}" if hint else "")


def _value(owner: type[Any], spec: Spec, version: int, item: Any, where: str) -> Any:
    if item is None:
        if not spec.is_nullable_in(version):
            raise EncodeError(where, f"may not be null in version {version}")
        return None
    if spec.is_array:
        if not isinstance(item, list):
            raise EncodeError(where, f"must be a list, not {type(item).__name__}")
        element = spec._replace(type=spec.element, nullable=None)
        values = [_value(owner, element, version, part, f"{where}[{i}]") for i, part in enumerate(item)]
        return bytes(value & 0xFF for value in values) if spec.type == "[]int8" else values
    inner = struct_named(owner, spec.type)
    if inner:
        return _struct_value(inner, version, item, where)
    value = _from_text(spec.type, item, where)
    reason = problem(spec.type, value)
    if reason:
        raise EncodeError(where, reason)
    return value


def _from_text(type_name: str, item: Any, where: str) -> Any:
    """Converts UUIDs and bytes, which are texts in JSON."""
    if type_name == "float64" and isinstance(item, int):
        return float(item)
    if type_name not in ("uuid", "bytes", "records") or not isinstance(item, str):
        return item
    try:
        return uuid_bytes(item) if type_name == "uuid" else base64.b64decode(item, validate=True)
    except (ValueError, binascii.Error) as error:
        raise EncodeError(where, str(error)) from None

"""Reads and writes varints, strings, bytes, arrays and tagged fields, for the generated codecs.

Readers take `(buffer, position)` and return `(value, position after it)`; writers append to a `bytearray`.
"Compact" is the form of flexible versions: an unsigned varint of length + 1, with 0 for null.
If a reader fails, it raises `MalformedError`, `IndexError`, `struct.error` or `UnicodeDecodeError` without a position:
to be fast, readers don't keep track of it, and `kshare.protocol.diagnose` finds the field afterwards.
Readers allocate nothing for a length or count that is larger than the rest of the buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

Buffer = bytes | bytearray | memoryview
"""Types of input. Fields of type records are views of it, not copies."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Read = Callable[[Buffer, int], tuple[T, int]]

MAX_STRING = 32767


class MalformedError(ValueError):
    """The bytes contradict the schema; `diagnose` turns it into a DecodeError with path and offset."""


class UnencodableError(ValueError):
    """A value can't be encoded; `diagnose` turns it into an EncodeError with the path."""


class Decoder(Protocol[T_co]):
    """The `decode_from` of a generated struct."""

    def __call__(self, buf: Buffer, pos: int, version: int) -> tuple[T_co, int]: ...


class Encodable(Protocol):
    """A generated struct that can be encoded."""

    def encode_into(self, out: bytearray, version: int) -> None: ...


# --- varints


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    byte = buf[pos]
    if byte < 0x80:
        return byte, pos + 1
    value = byte & 0x7F
    for shift in (7, 14, 21, 28):
        pos += 1
        byte = buf[pos]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, pos + 1
    raise MalformedError("varint is longer than 32 bits")


def write_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


# --- strings


def _int16(buf: Buffer, pos: int) -> int:
    value = (buf[pos] << 8) | buf[pos + 1]
    return value - 0x10000 if value > 0x7FFF else value


def _text(buf: Buffer, pos: int, length: int) -> tuple[str, int]:
    end = pos + length
    if end > len(buf) or not 0 <= length <= MAX_STRING:
        raise MalformedError(f"a string of {length} bytes, {len(buf) - pos} are left")
    return str(buf[pos:end], "utf-8"), end


def read_string(buf: Buffer, pos: int) -> tuple[str, int]:
    length = _int16(buf, pos)
    if length == -1:
        raise MalformedError("null, where the version allows none")
    return _text(buf, pos + 2, length)


def read_nullable_string(buf: Buffer, pos: int) -> tuple[str | None, int]:
    length = _int16(buf, pos)
    if length == -1:
        return None, pos + 2
    return _text(buf, pos + 2, length)


def read_compact_string(buf: Buffer, pos: int) -> tuple[str, int]:
    length, pos = read_uvarint(buf, pos)
    if not length:
        raise MalformedError("null, where the version allows none")
    return _text(buf, pos, length - 1)


def read_compact_nullable_string(buf: Buffer, pos: int) -> tuple[str | None, int]:
    if not buf[pos]:
        return None, pos + 1
    length, pos = read_uvarint(buf, pos)
    if not length:
        return None, pos
    return _text(buf, pos, length - 1)


def write_string(out: bytearray, value: str) -> None:
    data = value.encode()
    if len(data) > MAX_STRING:
        raise UnencodableError(f"{len(data)} bytes, but a string has at most {MAX_STRING}")
    out += struct.pack(">h", len(data))
    out += data


def write_nullable_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out += b"\xff\xff"
    else:
        write_string(out, value)


def write_compact_string(out: bytearray, value: str) -> None:
    data = value.encode()
    length = len(data)
    if length > MAX_STRING:
        raise UnencodableError(f"{length} bytes, but a string has at most {MAX_STRING}")
    write_uvarint(out, length + 1)
    out += data


def write_compact_nullable_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out.append(0)
    else:
        write_compact_string(out, value)


# --- bytes and records (the same on the wire; records are read as views, bytes are copied)


NO_RECORDS = memoryview(b"")


def _int32(buf: Buffer, pos: int) -> int:
    (value,) = struct.unpack_from(">i", buf, pos)
    return int(value)


def _span(buf: Buffer, pos: int, length: int) -> tuple[memoryview, int]:
    end = pos + length
    if length < 0 or end > len(buf):
        raise MalformedError(f"{length} bytes announced, {len(buf) - pos} are left")
    return memoryview(buf)[pos:end], end


def read_nullable_records(buf: Buffer, pos: int) -> tuple[memoryview | None, int]:
    length = _int32(buf, pos)
    if length == -1:
        return None, pos + 4
    return _span(buf, pos + 4, length)


def read_compact_nullable_records(buf: Buffer, pos: int) -> tuple[memoryview | None, int]:
    length, pos = read_uvarint(buf, pos)
    if not length:
        return None, pos
    return _span(buf, pos, length - 1)


def read_records(buf: Buffer, pos: int) -> tuple[memoryview, int]:
    """Null is read as empty, although the version doesn't allow it: kfake sends it for partitions without data."""
    view, pos = read_nullable_records(buf, pos)
    return NO_RECORDS if view is None else view, pos


def read_compact_records(buf: Buffer, pos: int) -> tuple[memoryview, int]:
    view, pos = read_compact_nullable_records(buf, pos)
    return NO_RECORDS if view is None else view, pos


def read_nullable_bytes(buf: Buffer, pos: int) -> tuple[bytes | None, int]:
    view, pos = read_nullable_records(buf, pos)
    return (None if view is None else bytes(view)), pos


def read_compact_nullable_bytes(buf: Buffer, pos: int) -> tuple[bytes | None, int]:
    view, pos = read_compact_nullable_records(buf, pos)
    return (None if view is None else bytes(view)), pos


def read_bytes(buf: Buffer, pos: int) -> tuple[bytes, int]:
    return _required(*read_nullable_bytes(buf, pos))


def read_compact_bytes(buf: Buffer, pos: int) -> tuple[bytes, int]:
    return _required(*read_compact_nullable_bytes(buf, pos))


def _required(value: T | None, pos: int) -> tuple[T, int]:
    if value is None:
        raise MalformedError("null, where the version allows none")
    return value, pos


def write_bytes(out: bytearray, value: Buffer) -> None:
    out += struct.pack(">i", len(value))
    out += value


def write_nullable_bytes(out: bytearray, value: Buffer | None) -> None:
    if value is None:
        out += b"\xff\xff\xff\xff"
    else:
        write_bytes(out, value)


def write_compact_bytes(out: bytearray, value: Buffer) -> None:
    write_uvarint(out, len(value) + 1)
    out += value


def write_compact_nullable_bytes(out: bytearray, value: Buffer | None) -> None:
    if value is None:
        out.append(0)
    else:
        write_compact_bytes(out, value)


# --- arrays


def read_count(buf: Buffer, pos: int, flexible: bool, smallest: int) -> tuple[int, int]:
    """The number of elements. Raises MalformedError if the bytes left can't contain that many."""
    count, pos = read_nullable_count(buf, pos, flexible, smallest)
    if count < 0:
        raise MalformedError("null, where the version allows none")
    return count, pos


def read_nullable_count(buf: Buffer, pos: int, flexible: bool, smallest: int) -> tuple[int, int]:
    """Like `read_count`, -1 for null."""
    if flexible:
        count = buf[pos]
        if count < 0x80:  # the usual case of `read_uvarint`
            pos += 1
        else:
            count, pos = read_uvarint(buf, pos)
        count -= 1
    else:
        count = _int32(buf, pos)
        pos += 4
    if count * smallest > len(buf) - pos or count < -1:
        raise MalformedError(
            f"{count} elements of at least {smallest} bytes announced, {len(buf) - pos} are left"
        )
    return count, pos


def write_count(out: bytearray, count: int, flexible: bool) -> None:
    """-1 is null."""
    if flexible:
        write_uvarint(out, count + 1)
    else:
        out += struct.pack(">i", count)


def read_structs(
    buf: Buffer, pos: int, flexible: bool, smallest: int, decode: Decoder[T], version: int
) -> tuple[list[T], int]:
    if flexible and buf[pos] == 1:  # the usual case: empty
        return [], pos + 1
    count, pos = read_count(buf, pos, flexible, smallest)
    items: list[T] = []
    for _ in range(count):
        item, pos = decode(buf, pos, version)
        items.append(item)
    return items, pos


def read_nullable_structs(
    buf: Buffer, pos: int, flexible: bool, smallest: int, decode: Decoder[T], version: int
) -> tuple[list[T] | None, int]:
    count, end = read_nullable_count(buf, pos, flexible, smallest)
    return (None, end) if count < 0 else read_structs(buf, pos, flexible, smallest, decode, version)


def write_structs(out: bytearray, items: Sequence[Encodable] | None, flexible: bool, version: int) -> None:
    if items is None:
        write_count(out, -1, flexible)
        return
    write_count(out, len(items), flexible)
    for item in items:
        item.encode_into(out, version)


def read_numbers(buf: Buffer, pos: int, flexible: bool, code: str, size: int) -> tuple[list[int], int]:
    """An array of fixed-width numbers, read at once; `code` is the struct module's letter."""
    count, pos = read_count(buf, pos, flexible, size)
    return list(struct.unpack_from(f">{count}{code}", buf, pos)), pos + count * size


def read_nullable_numbers(
    buf: Buffer, pos: int, flexible: bool, code: str, size: int
) -> tuple[list[int] | None, int]:
    count, end = read_nullable_count(buf, pos, flexible, size)
    return (None, end) if count < 0 else read_numbers(buf, pos, flexible, code, size)


def write_numbers(out: bytearray, items: list[int] | None, flexible: bool, code: str) -> None:
    if items is None:
        write_count(out, -1, flexible)
        return
    write_count(out, len(items), flexible)
    out += struct.pack(f">{len(items)}{code}", *items)


def read_values(buf: Buffer, pos: int, flexible: bool, smallest: int, read: Read[T]) -> tuple[list[T], int]:
    """An array of strings, bytes or uuids."""
    count, pos = read_count(buf, pos, flexible, smallest)
    items: list[T] = []
    for _ in range(count):
        item, pos = read(buf, pos)
        items.append(item)
    return items, pos


def read_nullable_values(
    buf: Buffer, pos: int, flexible: bool, smallest: int, read: Read[T]
) -> tuple[list[T] | None, int]:
    count, end = read_nullable_count(buf, pos, flexible, smallest)
    return (None, end) if count < 0 else read_values(buf, pos, flexible, smallest, read)


def write_values(
    out: bytearray, items: list[T] | None, flexible: bool, write: Callable[[bytearray, T], None]
) -> None:
    if items is None:
        write_count(out, -1, flexible)
        return
    write_count(out, len(items), flexible)
    for item in items:
        write(out, item)


def read_uuid(buf: Buffer, pos: int) -> tuple[bytes, int]:
    end = pos + 16
    if end > len(buf):
        raise MalformedError(f"16 bytes announced, {len(buf) - pos} are left")
    return bytes(buf[pos:end]), end


def write_uuid(out: bytearray, value: bytes) -> None:
    if len(value) != 16:
        raise UnencodableError(f"a uuid has 16 bytes, not {len(value)}")
    out += value


# --- nullable structs: a byte before them says whether they are null


def read_nullable_struct(buf: Buffer, pos: int, decode: Decoder[T], version: int) -> tuple[T | None, int]:
    if buf[pos] > 0x7F:
        return None, pos + 1
    return decode(buf, pos + 1, version)


def write_nullable_struct(out: bytearray, value: Encodable | None, version: int) -> None:
    if value is None:
        out.append(0xFF)
    else:
        out.append(1)
        value.encode_into(out, version)


# --- arrays of int8: bytes in Python, as on the wire (255 for -1)

ONE_BYTE = tuple(bytes([value]) for value in range(256))


def read_int8s(buf: Buffer, pos: int, flexible: bool) -> tuple[bytes, int]:
    count, pos = read_count(buf, pos, flexible, 1)
    return bytes(buf[pos : pos + count]), pos + count


def read_nullable_int8s(buf: Buffer, pos: int, flexible: bool) -> tuple[bytes | None, int]:
    count, end = read_nullable_count(buf, pos, flexible, 1)
    return (None, end) if count < 0 else read_int8s(buf, pos, flexible)


def write_int8s(out: bytearray, value: Buffer | None, flexible: bool) -> None:
    if value is None:
        write_count(out, -1, flexible)
    else:
        write_count(out, len(value), flexible)
        out += value


# --- tagged fields


def read_tags(buf: Buffer, pos: int) -> tuple[bytes, int]:
    """The encoded tagged fields of a struct, beginning with their count; empty if there are none."""
    if not buf[pos]:
        return b"", pos + 1
    _, end = split_tags(buf, pos)
    return bytes(buf[pos:end]), end


def split_tags(buf: Buffer, pos: int) -> tuple[dict[int, bytes], int]:
    """The bytes of every tagged field, by tag. Tags must ascend, so no field can occur twice."""
    count, pos = read_uvarint(buf, pos)
    tags: dict[int, bytes] = {}
    last = -1
    for _ in range(count):
        tag, pos = read_uvarint(buf, pos)
        if tag <= last:
            raise MalformedError(f"tag {tag} after tag {last}")
        last = tag
        length, pos = read_uvarint(buf, pos)
        view, pos = _span(buf, pos, length)
        tags[tag] = bytes(view)
    return tags, pos


def join_tags(tags: Mapping[int, Buffer]) -> bytes:
    """The reverse of `split_tags`; empty if there are no tags."""
    if not tags:
        return b""
    out = bytearray()
    write_uvarint(out, len(tags))
    for tag in sorted(tags):
        write_uvarint(out, tag)
        write_uvarint(out, len(tags[tag]))
        out += tags[tag]
    return bytes(out)


def check_tag_end(value: bytes, end: int) -> None:
    """Checks that a known tagged field fills the size of its tag."""
    if end != len(value):
        raise MalformedError(f"a tagged field of {len(value)} bytes, {end} were needed")


def write_tags(out: bytearray, tags: bytes) -> None:
    if not tags:
        out.append(0)
        return
    _, end = split_tags(tags, 0)
    if end != len(tags):
        raise UnencodableError("unknown_tags holds more than tagged fields")
    out += tags


def merge_tags(known: Mapping[int, Buffer | None], unknown: bytes) -> bytes:
    """Known and unknown tagged fields together. Known ones that are None (default) are left out but stay reserved."""
    tags: dict[int, Buffer] = dict(split_tags(unknown, 0)[0]) if unknown else {}
    for tag in known:
        if tag in tags:
            raise UnencodableError(f"unknown_tags holds tag {tag}, which the schema knows")
    return join_tags(tags | {tag: value for tag, value in known.items() if value is not None})

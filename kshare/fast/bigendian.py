"""Reads and writes single big-endian numbers: if compiled, by a load or store and a byte swap.

Gains: a ShareFetch response with 100 acquired ranges is decoded in 13 µs instead of 56, without a tuple for each.
To take it out: remove the C readers of array elements from `tools/kgen/codec_hot.py`, and generate the messages again.
"""

from __future__ import annotations

from struct import Struct

Buffer = bytes | bytearray | memoryview

_INT8, _INT16, _INT32, _INT64 = (Struct(f">{code}") for code in "bhiq")
_UINT16, _UINT32, _FLOAT64 = (Struct(f">{code}") for code in "HId")


def int8(buf: Buffer, pos: int) -> int:
    return int(_INT8.unpack_from(buf, pos)[0])


def int16(buf: Buffer, pos: int) -> int:
    return int(_INT16.unpack_from(buf, pos)[0])


def int32(buf: Buffer, pos: int) -> int:
    return int(_INT32.unpack_from(buf, pos)[0])


def int64(buf: Buffer, pos: int) -> int:
    return int(_INT64.unpack_from(buf, pos)[0])


def uint16(buf: Buffer, pos: int) -> int:
    return int(_UINT16.unpack_from(buf, pos)[0])


def uint32(buf: Buffer, pos: int) -> int:
    return int(_UINT32.unpack_from(buf, pos)[0])


def float64(buf: Buffer, pos: int) -> float:
    return float(_FLOAT64.unpack_from(buf, pos)[0])


def put_int8(buf: bytearray, pos: int, value: int) -> None:
    _INT8.pack_into(buf, pos, value)


def put_int16(buf: bytearray, pos: int, value: int) -> None:
    _INT16.pack_into(buf, pos, value)


def put_int32(buf: bytearray, pos: int, value: int) -> None:
    _INT32.pack_into(buf, pos, value)


def put_int64(buf: bytearray, pos: int, value: int) -> None:
    _INT64.pack_into(buf, pos, value)


def put_uint16(buf: bytearray, pos: int, value: int) -> None:
    _UINT16.pack_into(buf, pos, value)


def put_uint32(buf: bytearray, pos: int, value: int) -> None:
    _UINT32.pack_into(buf, pos, value)


def put_float64(buf: bytearray, pos: int, value: float) -> None:
    _FLOAT64.pack_into(buf, pos, value)

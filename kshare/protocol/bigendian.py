"""Numbers of the wire, one at a time. Compiled modules get the C versions in `bigendian.pxd` in place of these."""

from __future__ import annotations

from struct import Struct

from kshare.protocol.primitives import Buffer

_INT8, _INT16, _INT32, _INT64 = (Struct(f">{code}").unpack_from for code in "bhiq")


def int8(buf: Buffer, pos: int) -> int:
    value: int = _INT8(buf, pos)[0]
    return value


def int16(buf: Buffer, pos: int) -> int:
    value: int = _INT16(buf, pos)[0]
    return value


def int32(buf: Buffer, pos: int) -> int:
    value: int = _INT32(buf, pos)[0]
    return value


def int64(buf: Buffer, pos: int) -> int:
    value: int = _INT64(buf, pos)[0]
    return value

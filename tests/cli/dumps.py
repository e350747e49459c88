"""Bytes as a hex dump."""

from __future__ import annotations


def dump(data: bytes, *, colon: str = ":") -> str:
    rows = [(at, data[at : at + 16]) for at in range(0, len(data), 16)]
    return "\n".join(f"{at:08x}{colon} {row.hex(' ', 2)}  {'.' * len(row)}" for at, row in rows)

"""The row of a response about what was requested. If a broker leaves it out, that is an error which says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from kshare.errors import IncompleteResponse

RowT = TypeVar("RowT")


def expected_row(rows: Sequence[RowT], api: str, subject: str) -> RowT:
    """The first of these rows. Raises IncompleteResponse if there is none."""
    if not rows:
        raise left_out(api, subject)
    return rows[0]


def left_out(api: str, subject: str) -> IncompleteResponse:
    return IncompleteResponse(
        f"the broker's response to {api} says nothing about {subject}: look into the broker's log; if a proxy is in "
        "front of it, check that it passes responses on unchanged"
    )

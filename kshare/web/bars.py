"""A picture of a share-partition as an SVG bar: one path for each state, with a rectangle for each run of offsets.

All bars of a page have one scale, so that they can be compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from kshare.monitor.picture import Picture, Standing

_SIGNS = 400
_LEAST = 40
"""Bars of fewer offsets don't fill the width: otherwise, a single record would look like many."""


@dataclass(frozen=True, slots=True)
class SvgBar:
    paths: tuple[tuple[str, str], ...]
    """A class of the style sheet, and where the offsets in this state are. A bar is one unit high."""
    width: int
    first: int
    last: int
    window: float | None
    """Where the in-flight window ends, if there are offsets behind it."""


@dataclass(frozen=True, slots=True)
class BarScale:
    """What the bars of a page have in common."""

    per_sign: int
    """How many offsets a sign stands for."""
    signs: int
    """How many signs fill the width."""

    @property
    def offsets(self) -> int:
        """How many offsets fill the width."""
        return self.per_sign * self.signs


def scale_of(pictures: Iterable[Picture]) -> BarScale:
    """The longest fills the width."""
    longest = max((picture.size for picture in pictures), default=0)
    per_sign = max(1, -(-longest // _SIGNS))
    return BarScale(per_sign, max(_LEAST, -(-longest // per_sign)))


def bar_of(picture: Picture, scale: BarScale) -> SvgBar | None:
    """None if there is nothing after the start offset."""
    bar = picture.scaled_bar(scale.per_sign)
    if bar is None:
        return None
    paths: dict[Standing, list[str]] = defaultdict(list)
    x = 0
    for standing, same in groupby(sign.standing for sign in bar.signs):
        width = len(list(same))
        paths[standing].append(f"M{x} 0h{width}v1h-{width}z")
        x += width
    end = picture.progress.window_end if picture.progress else None
    window = None if end is None else (end - picture.start) / bar.per_sign
    return SvgBar(
        tuple((class_of(standing), "".join(parts)) for standing, parts in sorted(paths.items())),
        scale.signs,
        picture.start,
        picture.last,
        None if window is None or not 0 < window < x else round(window, 2),
    )


def class_of(standing: Standing) -> str:
    """A class of the style sheet."""
    return standing.name.lower().replace("_", "-")

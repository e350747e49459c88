"""Templates and their filters. Everything is escaped; a name that a template doesn't know is an error."""

from __future__ import annotations

import time
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from kshare.log_text import escaped_lines
from kshare.wording import counted, duration, iso_time

DASH, ELLIPSIS = "\N{EN DASH}", "\N{HORIZONTAL ELLIPSIS}"


def number(value: float | None, digits: int = 0) -> str:
    """12,345; a dash if it is unknown."""
    return DASH if value is None else f"{value:,.{digits}f}"


def rate(value: float | None) -> str:
    return DASH if value is None else f"{value:,.1f}" if 0 < value < 100 else f"{value:,.0f}"


def share(value: float | None) -> str:
    """A percentage."""
    return DASH if value is None else f"{100 * value:.0f} %" if value >= 0.01 or not value else "< 1 %"


def age(seconds: float | None) -> str:
    """12 s, 5 min, 3 h"""
    return DASH if seconds is None else duration(seconds)


def clock(seconds: float | None) -> str:
    """A time in UTC, to the second."""
    return DASH if seconds is None else iso_time(int(seconds * 1000), "seconds")


def query(changes: dict[str, object], current: dict[str, str] | None = None) -> str:
    """A query string: the current one with changes. None and empty values are left out."""
    merged = {**(current or {}), **changes}
    return "?" + urlencode({name: value for name, value in merged.items() if value not in (None, "")})


def one_line(text: str, most: int) -> str:
    """The beginning of a text, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[:most].rstrip() + ELLIPSIS


def exact(text: object) -> Markup:
    """For values of fields, which come back when the form is sent, and which nobody sees. Escaped, but not changed."""
    return escape(text)


def _harmless(value: object) -> object:
    """What a template shows: names that come from the cluster may have control characters, Markup is our own."""
    return escaped_lines(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def make_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("kshare.web", "templates"),
        autoescape=True,
        finalize=_harmless,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=number,
        rate=rate,
        share=share,
        age=age,
        clock=clock,
        one_line=one_line,
        query=query,
        exact=exact,
    )
    environment.globals.update(now=time.time, counted=counted, Markup=Markup)
    return environment

"""Arguments of `tools/simulate`: numbers that make sense, options that go together, and errors that fit on a line."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from difflib import get_close_matches
from typing import NoReturn

from tests.simulation.defects import REGISTRY
from tests.simulation.found import FOUND

_MODES = ("seed", "found", "defects")
"""Without any of them, many seeds are simulated."""
_USELESS = {
    "seed": ("seeds", "minutes", "first", "stop", "digests", "jobs", "write", "half"),
    "found": (
        *("seeds", "minutes", "first", "stop", "digests", "jobs", "write", "shrink", "half"),
        *("world", "slow", "changes", "uncollected"),
    ),
    "defects": (
        *("seeds", "minutes", "first", "stop", "digests", "shrink"),
        *("slow", "changes", "uncollected", "defect"),
    ),
    "many": ("shrink", "write", "half"),
}
"""Options that each mode knows nothing about."""
_NEEDS = {"shrink": "--seed", "write": "--defects", "half": "--defects"}


class Parser(argparse.ArgumentParser):
    """Its errors are a line. The usage, with all options, would hide what is wrong."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (--help explains the options)\n")


def minutes(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a number of minutes above 0")
    return found


def defect(text: str) -> str:
    """The name of one."""
    if text not in REGISTRY:
        close = get_close_matches(text, REGISTRY, 1)
        hint = f"did you mean {close[0]}?" if close else "docs/reports/planted-defects.md has their names"
        raise argparse.ArgumentTypeError(f"no defect has the name {text!r}: {hint}")
    return text


def found(text: str) -> list[str]:
    """Descriptions of what was found once that have this text."""
    return [description for description in FOUND if text.casefold() in description.casefold()]


def _is_given(options: argparse.Namespace, name: str) -> bool:
    """Also if it is 0."""
    value = getattr(options, name)
    return value is not None and value is not False


def conflicts(options: argparse.Namespace) -> Iterator[str]:
    """What contradicts something else, or would have no effect."""
    mode = next((mode for mode in _MODES if _is_given(options, mode)), "many")
    for name in _USELESS[mode]:
        if _is_given(options, name):
            yield (
                f"--{name} goes only with {_NEEDS[name]}"
                if name in _NEEDS
                else f"--{name} and --{mode} don't go together"
            )
    if mode == "seed" and options.world == "all":
        yield "--seed needs one --world: each makes something else of a seed"
    if options.found and not (meant := found(options.found)):
        yield f"--found: nothing that was found has {options.found!r} in its description (--found lists all)"
    elif options.found and len(meant) > 1:
        yield f"--found: {options.found!r} is in several descriptions: {'; '.join(meant)}"
    if options.write and (options.half or options.world not in (None, "all")):
        yield "--write needs all defects of all worlds: it replaces the whole table"
    if options.defect and options.world not in (None, REGISTRY[options.defect].world):
        yield f"--defect {options.defect} is for --world {REGISTRY[options.defect].world}"

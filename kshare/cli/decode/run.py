"""Runs `kshare decode`: reads the input, splits it, and shows its parts.

It fails if any part breaks or has a problem, such as a wrong checksum.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from kshare.capture import is_capture
from kshare.cli.decode.hex_view import draw_hex
from kshare.cli.decode.read_input import read_input, taken_for_text
from kshare.cli.terminal.failure import Failure, misuse
from kshare.cli.terminal.screen import FAINT, NAME, Screen, styled
from kshare.cli.terminal.tree_view import draw_tree
from kshare.dissect import DissectionProblem
from kshare.wire.batch_lines import SegmentTotals, batch_json, batch_lines, batch_parts, with_batch
from kshare.wire.guess import Hints, Ranked, hints_of, rank
from kshare.wire.mapped_memory import let_go
from kshare.wire.part_json import part_json, span_json
from kshare.wire.split_input import InputPart, input_parts, is_segment
from kshare.wording import counted

_GUESSES_SHOWN = 10
_LARGE = 1024 * 1024
"""Segments larger than this are summarized, because nobody reads the whole tree."""
_CHUNK = 1024 * 1024
_RANGE_WIDTH = 18
_NAME_WIDTH = 14


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """The options of the command line."""

    kind: str | None
    api: str | None
    version: int | None
    coding: str | None
    field: str | None
    view: str
    is_short: bool | None
    only_guesses: bool


def run_decode(source: str | None, options: DecodeOptions) -> None:
    with misuse():
        hints = hints_of(options.kind, options.api, options.version)
    data = memoryview(read_input(source, options.coding))
    if hints == Hints() and is_capture(data):
        _show_capture(data, source, options)
        return
    with misuse():  # no message may fit the hints
        _show_decoded(data, hints, options, taken_for_text(source) if options.coding is None else "")


def _show_decoded(data: memoryview, hints: Hints, options: DecodeOptions, about_source: str) -> None:
    screen = Screen()
    if options.only_guesses:
        _show_guesses(screen, rank(data, hints), options)
    elif _is_in_short(data, hints, options):
        _show_segment(screen, data, options)
    else:
        _show_pieces(screen, data, hints, options, about_source)
    screen.done()


def _is_in_short(data: memoryview, hints: Hints, options: DecodeOptions) -> bool:
    if not is_segment(data, hints):
        return False
    if options.is_short is None:
        return len(data) > _LARGE and options.view == "tree" and options.field is None
    return options.is_short


def _show_capture(data: memoryview, source: str | None, options: DecodeOptions) -> None:
    """Show a network capture as `kshare pcap` does."""
    from kshare.cli.terminal.traffic.view import TrafficOptions, show_capture

    if options.view == "hex" or options.field or options.only_guesses:
        raise Failure("this is a network capture: use kshare pcap -v to see every field")
    show_capture(
        _chunks(data), source or "standard input", [], TrafficOptions(is_json=options.view == "json")
    )


def _chunks(data: memoryview) -> Iterator[bytes]:
    for at in range(0, len(data), _CHUNK):
        yield bytes(data[at : at + _CHUNK])
        let_go(data, at, at + _CHUNK)


def _show_segment(screen: Screen, data: memoryview, options: DecodeOptions) -> None:
    totals = _show_batch_lines(screen, data, is_json=options.view == "json")
    if options.is_short is None:
        screen.line(("--field 'records[0]' shows one batch, --tree all of them", FAINT))
    screen.done()
    if totals.problems:
        raise Failure(f"{totals.first_problem}{_and_more(totals.problems - 1)}")


def _show_pieces(
    screen: Screen, data: memoryview, hints: Hints, options: DecodeOptions, about_source: str
) -> None:
    problems: list[DissectionProblem] = []
    is_found = options.field is None
    for input_part in input_parts(data, hints, options.field):
        if doubt := input_part.doubt(hints):
            raise Failure(f"{about_source}{doubt}; set the kind with --as")
        problems += input_part.reading.problems
        is_found |= _show(screen, input_part, options)
    screen.done()
    if not is_found:
        reason = f": {problems[0]}" if problems else ""
        raise Failure(f"there is no field {options.field}{reason}")
    if problems:
        raise Failure(f"{problems[0]}{_and_more(len(problems) - 1)}")


def _show(screen: Screen, input_part: InputPart, options: DecodeOptions) -> bool:
    """Show one part. Returns False if it doesn't have the field."""
    reading = input_part.reading
    span = reading.find(options.field) if options.field else reading.root
    if span is None:
        return False
    if options.is_short:
        _show_in_short(screen, input_part, options)
        return True
    if options.view == "json":
        form = span_json(span, input_part.start) if options.field else part_json(input_part)
        screen.text(json.dumps(form, indent=2, ensure_ascii=not screen.is_plain) + "\n")
        return True
    if not options.field:
        _head(screen, input_part)
    (draw_hex if options.view == "hex" else draw_tree)(screen, span, input_part.start)
    return True


def _show_in_short(screen: Screen, input_part: InputPart, options: DecodeOptions) -> None:
    if options.view != "json":
        _head(screen, input_part)
        return
    reading = input_part.reading
    form = {"message": reading.message, "version": reading.version, "offset": input_part.start}
    screen.text(json.dumps(form | {"length": reading.root.length}) + "\n")


def _head(screen: Screen, input_part: InputPart) -> None:
    reading = input_part.reading
    what = f"{reading.message} v{reading.version}" if reading.message else str(input_part.guess)
    where = f" from {input_part.start}" if input_part.start else ""
    screen.line((what, NAME), (f"  {reading.root.length} bytes{where}", FAINT))
    others = [str(alternative) for alternative in input_part.alternatives]
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        screen.line((f"guessed; it could also be {', '.join(others[:3])}{more} (--guesses)", FAINT))


def _show_guesses(screen: Screen, guesses: list[Ranked], options: DecodeOptions) -> None:
    shown = guesses[:_GUESSES_SHOWN]
    if options.view == "json":
        rows = [
            {
                "kind": ranked.guess.kind,
                "message": ranked.guess.name,
                "version": ranked.guess.version,
                "isWhole": ranked.is_whole,
                "score": round(ranked.score, 2),
            }
            for ranked in shown
        ]
        screen.text(json.dumps(rows, indent=2) + "\n")
        return
    for ranked in shown:
        guess, end = ranked.guess, "" if ranked.is_whole else "  breaks"
        screen.line((f"{ranked.score:6.1f}  ", FAINT), (str(guess), NAME), (f"  {guess.kind}{end}", FAINT))


def _and_more(problems: int) -> str:
    return f" (and {counted(problems, 'more problem')})" if problems else ""


def _show_batch_lines(screen: Screen, data: memoryview, *, is_json: bool) -> SegmentTotals:
    """A summary of a log segment, one line per batch."""
    totals = SegmentTotals()
    for line in batch_lines(data):
        totals = with_batch(totals, line)
        if is_json:
            screen.text(json.dumps(batch_json(line)) + "\n")
        else:
            screen.line(
                (f"{line.start}-{line.end - 1} ".ljust(_RANGE_WIDTH), FAINT),
                (f"records[{line.number}] ".ljust(_NAME_WIDTH), NAME),
                *styled(batch_parts(line)),
            )
        let_go(data, line.start, line.end)
    if not is_json:
        offsets = (
            "" if totals.first_offset is None else f", offsets {totals.first_offset}-{totals.last_offset}"
        )
        what = f"{totals.batches:,} batches, {totals.records:,} records{offsets}, {len(data):,} bytes"
        screen.line((what, NAME))
    return totals

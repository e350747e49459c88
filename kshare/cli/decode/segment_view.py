"""A summary of a log segment, one line per batch, from headers and checksums: fast even for a gigabyte.

Records aren't decoded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from kshare.cli.decode.batch_boundaries import batch_cuts, problem_of_batch
from kshare.cli.decode.read_input import let_go
from kshare.cli.terminal.colours import FAINT, NAME, PROBLEM
from kshare.cli.terminal.screen import Screen
from kshare.dissect.value_notes import batch_attributes, moment
from kshare.protocol.record_header import HEADER

_RANGE_WIDTH = 18
_NAME_WIDTH = 14
_NO_PRODUCER = -1


class BatchLine(NamedTuple):
    """The place of a batch, and values from its header."""

    number: int
    start: int
    end: int
    problem: str
    base_offset: int = 0
    last_offset: int = 0
    records: int = 0
    attributes: int = 0
    max_timestamp: int = -1
    producer_id: int = _NO_PRODUCER
    producer_epoch: int = -1
    base_sequence: int = -1


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of a segment."""

    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int = -1
    problems: int = 0
    first_problem: str = ""


def show_batch_lines(screen: Screen, data: memoryview, *, is_json: bool) -> Totals:
    totals = Totals()
    for line in _lines(data):
        totals = _added(totals, line)
        if is_json:
            screen.text(json.dumps(_form(line)) + "\n")
        else:
            screen.line(*_parts(line))
        let_go(data, line.start, line.end)
    if not is_json:
        offsets = (
            "" if totals.first_offset is None else f", offsets {totals.first_offset}-{totals.last_offset}"
        )
        what = f"{totals.batches:,} batches, {totals.records:,} records{offsets}, {len(data):,} bytes"
        screen.line((what, NAME))
    return totals


def _lines(data: memoryview) -> Iterator[BatchLine]:
    for number, (start, end) in enumerate(batch_cuts(data)):
        problem = problem_of_batch(data[start:end])
        if end - start < HEADER.size:
            yield BatchLine(number, start, end, problem)
            continue
        base, _, _, _, _, attributes, delta, _, time, producer, epoch, sequence, records = HEADER.unpack_from(
            data, start
        )
        yield BatchLine(
            number,
            start,
            end,
            problem,
            base,
            base + delta,
            records,
            attributes,
            time,
            producer,
            epoch,
            sequence,
        )


def _added(totals: Totals, line: BatchLine) -> Totals:
    if line.problem:
        first = totals.first_problem or f"records[{line.number}] at byte {line.start}: {line.problem}"
        return replace(totals, problems=totals.problems + 1, first_problem=first)
    first_offset = line.base_offset if totals.first_offset is None else totals.first_offset
    return replace(
        totals,
        batches=totals.batches + 1,
        records=totals.records + line.records,
        first_offset=first_offset,
        last_offset=line.last_offset,
    )


def _parts(line: BatchLine) -> list[tuple[str, str]]:
    parts = [
        (f"{line.start}-{line.end - 1} ".ljust(_RANGE_WIDTH), FAINT),
        (f"records[{line.number}] ".ljust(_NAME_WIDTH), NAME),
    ]
    if line.problem:
        return [*parts, (line.problem, PROBLEM)]
    parts.append((f"{line.base_offset}-{line.last_offset}  {line.records} records", ""))
    when = moment(line.max_timestamp).removesuffix("+00:00")
    parts.append((f"  {when}  {batch_attributes(line.attributes)}", FAINT))
    if line.producer_id != _NO_PRODUCER:
        producer = f"  producer {line.producer_id}/{line.producer_epoch} from {line.base_sequence}"
        parts.append((producer, FAINT))
    return parts


def _form(line: BatchLine) -> dict[str, object]:
    place: dict[str, object] = {
        "path": f"records[{line.number}]",
        "offset": line.start,
        "length": line.end - line.start,
    }
    if line.problem:
        return place | {"problem": line.problem}
    return place | {
        "baseOffset": line.base_offset,
        "lastOffset": line.last_offset,
        "records": line.records,
        "attributes": line.attributes,
        "maxTimestamp": line.max_timestamp,
        "producerId": line.producer_id,
        "producerEpoch": line.producer_epoch,
        "baseSequence": line.base_sequence,
    }

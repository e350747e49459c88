"""The batches of a log segment, one line for each, from headers and checksums: fast even for a gigabyte.

Records aren't decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from kshare.dissect.value_notes import batch_attributes, moment
from kshare.protocol.record_header import HEADER
from kshare.traffic.exchange_text import StyledText
from kshare.wire.batch_boundaries import batch_cuts, problem_of_batch

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
class SegmentTotals:
    """Totals of a segment."""

    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int = -1
    problems: int = 0
    first_problem: str = ""


def batch_lines(data: memoryview) -> Iterator[BatchLine]:
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


def with_batch(totals: SegmentTotals, line: BatchLine) -> SegmentTotals:
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


def batch_parts(line: BatchLine) -> list[StyledText]:
    """What a line says of its batch, after its place and name."""
    if line.problem:
        return [(line.problem, "error")]
    parts = [(f"{line.base_offset}-{line.last_offset}  {line.records} records", "plain")]
    when = moment(line.max_timestamp).removesuffix("+00:00")
    parts.append((f"  {when}  {batch_attributes(line.attributes)}", "faint"))
    if line.producer_id != _NO_PRODUCER:
        producer = f"  producer {line.producer_id}/{line.producer_epoch} from {line.base_sequence}"
        parts.append((producer, "faint"))
    return parts


def batch_json(line: BatchLine) -> dict[str, object]:
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

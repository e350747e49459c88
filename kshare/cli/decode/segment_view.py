"""Shows a summary of a log segment, one line per batch."""

from __future__ import annotations

import json

from kshare.cli.terminal.colours import FAINT, NAME, styled
from kshare.cli.terminal.screen import Screen
from kshare.wire.batch_lines import SegmentTotals, batch_json, batch_lines, batch_parts, with_batch
from kshare.wire.mapped_memory import let_go

_RANGE_WIDTH = 18
_NAME_WIDTH = 14


def show_batch_lines(screen: Screen, data: memoryview, *, is_json: bool) -> SegmentTotals:
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

"""Helper methods of events."""

from __future__ import annotations

from kshare.engine.events import Acknowledged
from kshare.state.session import AckRange


def test_settled_event_lists_acknowledgement_types_of_its_ranges() -> None:
    said = (AckRange(0, 9, b"\x01"), AckRange(12, 17, b"\x00\x01\x01\x02\x03\x03"))
    settled = Acknowledged("orders", 3, said, None, False)
    assert list(settled.ranges()) == [
        (0, 9, "accept"),
        (12, 12, "gap"),
        (13, 14, "accept"),
        (15, 15, "release"),
        (16, 17, "reject"),
    ]
    assert settled.counts() == {"accept": 12, "gap": 1, "release": 1, "reject": 2}

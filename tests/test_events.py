"""Users find in one module whatever observers and `on_settled` get."""

from __future__ import annotations

from typing import get_args

import kshare
from kshare import events


def test_every_event_that_an_observer_may_get_is_there() -> None:
    kinds = get_args(events.Event)
    assert events.Acknowledged in kinds
    assert [kind for kind in kinds if getattr(events, kind.__name__, None) is not kind] == []
    assert {kind.__name__ for kind in kinds} <= {*events.__all__}


def test_outcomes_are_the_same_class_under_both_names() -> None:
    assert kshare.Acknowledged is events.Acknowledged

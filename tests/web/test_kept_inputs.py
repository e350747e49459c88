"""What was loaded is given back to its owner, for a while."""

from __future__ import annotations

import anyio
import pytest

from kshare.web import kept_inputs
from kshare.web.kept_inputs import LIFETIME_S, KeptInputs


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_only_the_owner_gets_it_and_only_as_what_it_is() -> None:
    kept = KeptInputs()
    key = kept.keep("anna", b"bytes", 5)
    assert kept.get("anna", key, bytes) == b"bytes"
    assert kept.get("anna", key, str) is None
    assert kept.get("ben", key, bytes) is None
    assert kept.get("anna", "other", bytes) is None


def test_the_oldest_make_room() -> None:
    kept = KeptInputs(most=3, most_bytes=100)
    first, *others = [kept.keep("anna", number, 1) for number in range(4)]
    assert kept.get("anna", first, int) is None
    assert [kept.get("anna", key, int) for key in others] == [1, 2, 3]
    large = kept.keep("anna", 4, 1000)
    assert [kept.get("anna", key, int) for key in others] == [None, None, None]
    assert kept.get("anna", large, int) == 4


def test_it_is_dropped_after_its_time() -> None:
    clock = Clock()
    kept = KeptInputs(clock)
    early = kept.keep("anna", 1, 1)
    clock.now = LIFETIME_S / 2
    late = kept.keep("anna", 2, 1)
    clock.now = LIFETIME_S
    assert kept.get("anna", early, int) is None
    assert kept.get("anna", late, int) == 2


@pytest.mark.anyio
async def test_it_is_dropped_even_if_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_inputs, "_LOOK_S", 0.01)
    asked = anyio.Event()
    kept = KeptInputs()
    monkeypatch.setattr(kept, "drop_old", asked.set)
    async with kept.dropping():
        with anyio.fail_after(10):
            await asked.wait()

"""How long things took, as counts in slots: two digits of precision, and the same memory for a second as for a week."""

from __future__ import annotations

from math import floor, log10


class Latencies:
    def __init__(self) -> None:
        self._slots: dict[float, int] = {}
        self.count = 0
        self.longest = 0.0

    def add(self, seconds: float, count: int = 1) -> None:
        slot = _rounded(seconds)
        self._slots[slot] = self._slots.get(slot, 0) + count
        self.count += count
        self.longest = max(self.longest, seconds)

    def quantile(self, part: float) -> float | None:
        """0.5 is the median; None if there is nothing."""
        wanted = part * self.count
        seen = 0
        for slot in sorted(self._slots):
            seen += self._slots[slot]
            if seen >= wanted:
                return min(slot, self.longest)
        return None


def _rounded(seconds: float) -> float:
    if seconds < 1e-6:
        return 0.0
    return round(seconds, 1 - floor(log10(seconds)))

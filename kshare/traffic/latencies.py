"""A histogram of latencies with two digits of precision and constant memory."""

from __future__ import annotations

_SHORTEST = 1e-6


class Latencies:
    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        """By seconds, formatted with two digits."""
        self.count = 0
        self.longest = 0.0

    def add(self, seconds: float, count: int = 1) -> None:
        slot = "0" if seconds < _SHORTEST else f"{seconds:.1e}"
        self._slots[slot] = self._slots.get(slot, 0) + count
        self.count += count
        self.longest = max(self.longest, seconds)

    def quantile(self, part: float) -> float | None:
        """0.5 is the median; None if nothing was added."""
        wanted = part * self.count
        seen = 0
        for slot in sorted(self._slots, key=float):
            seen += self._slots[slot]
            if seen >= wanted:
                return min(float(slot), self.longest)
        return None

"""What many simulations have done together: seeds, time, what programs did, what was disturbed, and the CPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kshare.wording import counted

_MOST_REQUESTS = 12
"""How many kinds of requests are named."""


@dataclass
class Totals:
    seeds: int = 0
    bad: list[int] = field(default_factory=list)
    """Those that broke a promise."""
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    """What programs did, by kind."""
    requests: Counter[str] = field(default_factory=Counter)
    """What brokers were asked, by API."""
    faults: Counter[str] = field(default_factory=Counter)

    def add(
        self,
        seed: int,
        *,
        is_bad: bool,
        simulated_s: float,
        cpu_s: float,
        counts: Mapping[str, int],
        requests: Mapping[str, int],
        faults: Mapping[str, int],
    ) -> None:
        self.seeds += 1
        if is_bad:
            self.bad.append(seed)
        self.simulated_s += simulated_s
        self.cpu_s += cpu_s
        self.counts.update(counts)
        self.requests.update(requests)
        self.faults.update(faults)

    @property
    def progress(self) -> str:
        hours = f"{self.simulated_s / 3600:.2f} simulated hours"
        return f"{counted(self.seeds, 'seed')}, {hours}, {len(self.bad)} broke a promise"

    def lines(self, took_s: float, repeating: str) -> Iterator[str]:
        """`took_s`: of real time. `repeating`: the command that does a seed again, which is added."""
        yield (
            f"{counted(self.seeds, 'seed')} in {took_s:.0f} s: {self.simulated_s / 3600:.2f} simulated hours, "
            f"{self.counts['written']:,} records, {self.cpu_s:.0f} s of processor time, "
            f"{1000 * self.cpu_s / max(1.0, self.simulated_s):.1f} ms for each simulated second"
        )
        yield f"what happened: {listed(sorted(self.counts.items()))}"
        most = self.requests.most_common(_MOST_REQUESTS)
        yield f"requests: {sum(self.requests.values()):,}, such as {listed(most)}"
        yield f"faults: {sum(self.faults.values()):,}: {listed(sorted(self.faults.items()))}"
        named = f": {', '.join(map(str, self.bad))}" if self.bad else ""
        yield f"seeds that broke a promise: {len(self.bad)}{named}"
        if self.bad:
            yield f"what happened in the first of them: {repeating} {self.bad[0]}"


def listed(numbers: Iterable[tuple[str, int]]) -> str:
    return "; ".join(f"{number:,} {kind}" for kind, number in numbers) or "nothing"

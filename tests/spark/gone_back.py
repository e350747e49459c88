"""Start offsets of a group that went back although nobody reset them: what was accepted is delivered again.

Brokers before Kafka 4.4.0 do that after a broker was killed: a write of share state that was in flight to it is sent
again, and stored after newer ones (https://github.com/apache/kafka/pull/23074). A query can't tell this from a reset.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Where = tuple[int, int]
Token = Mapping[str, Any]

FIXED_IN = (4, 4)


def may_go_back(release: str) -> bool:
    """Whether brokers of this release have the defect."""
    return release[:1].isdigit() and tuple(map(int, release.split(".")[:2])) < FIXED_IN


def emitted_twice(emitted: Iterable[Where]) -> Counter[Where]:
    """How many times too often."""
    return Counter({where: count - 1 for where, count in Counter(emitted).items() if count > 1})


def unexplained(twice: Mapping[Where, int], tokens: Iterable[Token]) -> list[Where]:
    """Those that were emitted more often than a start offset went back to them, or before them, in these tokens."""
    back = _went_back_to(tokens)
    return sorted(
        where
        for where, count in twice.items()
        if count > sum(start <= where[1] for start in back.get(where[0], ()))
    )


def _went_back_to(tokens: Iterable[Token]) -> Mapping[int, Sequence[int]]:
    """Partition → start offsets that were lower than in the token before."""
    last: dict[str, int] = {}
    found: dict[int, list[int]] = defaultdict(list)
    for token in tokens:
        for starts in token.get("starts", {}).values():
            for number, start in starts.items():
                if start < last.get(number, 0):
                    found[int(number)].append(start)
            last.update(starts)
    return found

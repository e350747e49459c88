"""Records of a dead-letter topic, as a consumer hands them out, without a consumer."""

from __future__ import annotations

from dataclasses import dataclass

from kshare.errors import AcknowledgeError

GRAVE = "dlq.orders"
HEADERS = [
    ("own", b"h"),
    ("__dlq.errors.topic", b"orders"),
    ("__dlq.errors.partition", b"0"),
    ("__dlq.errors.offset", b"7"),
]
MOVED = [*HEADERS, ("__dlq.errors.moved.from", b"0:0")]


@dataclass
class FakeRecord:
    offset: int
    headers: list[tuple[str, bytes]]
    is_lost: bool = False
    is_accepted: bool = False
    key: bytes | None = None
    value: bytes = b"x"
    partition: int = 0
    timestamp: int = 0
    delivery_count: int = 1

    @property
    def header_count(self) -> int:
        return len(self.headers)

    def some_headers(self, most: int, prefix: bytes = b"") -> list[tuple[str, bytes]]:
        return self.headers

    def accept(self) -> None:
        if self.is_lost:
            raise AcknowledgeError("lost")
        self.is_accepted = True


class FakeBatch(list[FakeRecord]):
    topic, partition = GRAVE, 0

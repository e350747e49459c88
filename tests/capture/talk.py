"""TCP conversations as segments, made without the code that reassembles them."""

from __future__ import annotations

from dataclasses import dataclass, field

from kshare.capture import Closed, MissingBytes, ReceivedBytes, Streams
from kshare.capture.segments import ACK, FIN, SYN, Segment

SIDES = ((b"\x0a\0\0\x07", 51234), (b"\x0a\0\0\x01", 9092))


@dataclass
class Talk:
    """A conversation, segment by segment. `first`: the initial sequence numbers, perhaps near the wrap-around."""

    first: tuple[int, int] = (1000, 5000)
    segments: list[Segment] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.next = list(self.first)

    def open(self) -> Talk:
        self.segment(0, b"", SYN)
        self.segment(1, b"", SYN | ACK)
        self.segment(0, b"", ACK)
        return self

    def say(self, side: int, text: bytes, size: int = 4) -> Talk:
        for at in range(0, len(text), size):
            self.segment(side, text[at : at + size])
        return self

    def acknowledge(self, side: int) -> Talk:
        self.segment(side, b"")
        return self

    def close(self) -> Talk:
        self.segment(0, b"", ACK | FIN)
        self.segment(1, b"", ACK | FIN)
        self.segment(0, b"", ACK)
        return self

    def segment(self, side: int, payload: bytes, flags: int = ACK) -> None:
        acknowledged = self.next[1 - side] % 2**32 if flags & ACK else -1
        self.segments.append(
            Segment(
                SIDES[side],
                SIDES[1 - side],
                self.next[side] % 2**32,
                acknowledged,
                flags,
                memoryview(payload),
                0,
            )
        )
        self.next[side] += len(payload) + bool(flags & (SYN | FIN))


def arbitrary(side: int, sequence: int, acknowledged: int, flags: int, payload: str, missing: int) -> Segment:
    known = acknowledged if flags & ACK else -1
    return Segment(
        SIDES[side], SIDES[1 - side], sequence, known, flags, memoryview(payload.encode()), missing
    )


def told(segments: list[Segment], most_held: int = 1 << 20) -> list[str]:
    """The reassembled events in short; consecutive bytes in one direction are joined."""
    streams = Streams(most_held)
    lines: list[str] = []
    for number, segment in enumerate(segments):
        lines += [short(event) for event in streams.feed(segment, number)]
    lines += [short(event) for event in streams.finish(len(segments))]
    return joined(lines)


def short(event: ReceivedBytes | MissingBytes | Closed) -> str:
    match event:
        case ReceivedBytes(link, side, data):
            return f"{link.number}.{_client(side, link.name(0))} {data.decode()}"
        case MissingBytes(link, side, size):
            return f"{link.number}.{_client(side, link.name(0))} -{size}"
    return f"{event.link.number} closed"


def _client(side: int, name: str) -> str:
    return "client" if (side == 0) == name.endswith(":51234") else "server"


def joined(lines: list[str]) -> list[str]:
    together: list[str] = []
    for line in lines:
        head, _, text = line.partition(" ")
        before = together[-1].partition(" ") if together else ("", "", "")
        if "." in head and before[0] == head and not text.startswith("-") and not before[2].startswith("-"):
            together[-1] += text
        else:
            together.append(line)
    return together

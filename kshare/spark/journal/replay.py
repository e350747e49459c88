"""What a journal contains: its frames in order, checked against each other.

    a frame                                     | effect
    --------------------------------------------+----------------------------------------------------------
    claims the journal that is being replayed   | frames of earlier writers after this one are void
    claims with another journal's id            | a new journal begins: what was before is none of its business
    continues at the end of the last one        | its ranges are staged
    of a writer that has been superseded        | void: its runner was fenced, and accepted nothing for it
    anything else: not a frame, a wrong         | JournalDamaged
    checksum, a gap between positions, a writer |
    that hasn't claimed the journal             |

Sends and reads nothing: the frames are passed in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kshare.spark.journal.frames import Frame, JournalDamaged, decode
from kshare.spark.journal.store import return_command
from kshare.spark.ranges import NEW_CHECKPOINT, RecordRange


@dataclass(slots=True)
class JournalContents:
    """One journal. `first` and `end`: the positions that it has."""

    journal: str
    writer: str
    group: str
    member: str
    first: int
    end: int
    done: int = 0
    frames: list[tuple[int, Frame]] = field(default_factory=list)
    """With their index in the store: an offset of the topic, or a file's number."""
    superseded: set[str] = field(default_factory=set)
    """Earlier writers."""

    def staged(self, taken: int) -> tuple[RecordRange, ...]:
        """What is staged from this position on, in the order of positions."""
        return tuple(
            range_ for _, frame in self.frames for range_ in frame.ranges_from(taken) if frame.end > taken
        )

    @property
    def staged_records(self) -> int:
        """Records that aren't known to be in a completed micro-batch."""
        return self.end - self.done


def replay(found: Iterable[tuple[int, bytes | None]], place: str) -> JournalContents | None:
    """The newest journal in these frames; None if there are none. `place` is for error messages."""
    contents, damage = replay_to_damage(found)
    if damage is None:
        return contents
    advice = (
        "it isn't a journal"
        if contents is None
        else f"`{return_command(place)}` writes the records that are staged before that to their topics again. Then "
        f"start the query with {NEW_CHECKPOINT}"
    )
    raise JournalDamaged(f"the journal in {place} is damaged at {damage}: {advice}")


def replay_to_damage(
    found: Iterable[tuple[int, bytes | None]],
) -> tuple[JournalContents | None, str | None]:
    """The same, up to the first frame that is damaged, and what is wrong with it; None if none is."""
    contents: JournalContents | None = None
    for index, data in found:
        try:
            contents = _with(contents, index, decode(data))
        except JournalDamaged as error:
            return contents, f"frame {index} ({error})"
    return contents, None


def _with(contents: JournalContents | None, index: int, frame: Frame) -> JournalContents:
    if contents is None or (frame.is_claim and frame.journal != contents.journal):
        contents = JournalContents(
            frame.journal, frame.writer, frame.group, frame.member, frame.start, frame.start
        )
    if frame.is_claim:
        contents.superseded.add(contents.writer)
        contents.superseded.discard(frame.writer)
        contents.writer, contents.member, contents.group = frame.writer, frame.member, frame.group
        if frame.start != contents.end:
            return contents  # the other runner has appended meanwhile; another claim follows
    elif frame.writer in contents.superseded:
        return contents
    elif frame.writer != contents.writer:
        raise JournalDamaged("its writer hasn't claimed the journal, so frames are missing")
    if frame.journal != contents.journal:
        raise JournalDamaged(f"it belongs to another journal, {frame.journal} instead of {contents.journal}")
    if frame.start != contents.end:
        raise JournalDamaged(
            f"it continues at position {frame.start} instead of {contents.end}, so frames are missing"
        )
    contents.end = frame.end
    contents.done = max(contents.done, frame.done)
    contents.frames.append((index, frame))
    return contents

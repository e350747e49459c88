"""Which dead letters a request is about: by filters or one by one, as fields of a page and as words of a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.exceptions import HTTPException

from kshare.dead_letters.letter_states import default_group
from kshare.dead_letters.selection import Selection
from kshare.web.fields import milliseconds, place
from kshare.wording import shell_line

MOST_CHOSEN = 200
"""How many dead letters can be chosen one by one: a page lists fewer, and a command line must hold them."""
_NAMED, _LONGEST = 5, 100
FILTERS = ("source", "from_group", "reason", "since", "until")


@dataclass(frozen=True, slots=True)
class LetterChoice:
    topic: str
    filters: Mapping[str, str]
    places: tuple[tuple[int, int], ...]
    target: str
    """The topic to write to; empty for the original one."""
    tracker: str
    """The group that keeps track of dead letters."""

    @classmethod
    def of(cls, wanted: Mapping[str, str], letters: Sequence[str]) -> LetterChoice:
        """Raises HTTPException 400 if a time or a place can't be read, or there are too many places."""
        if len(letters) > MOST_CHOSEN:
            raise HTTPException(
                400,
                f"{len(letters):,} dead letters were chosen one by one, and at most {MOST_CHOSEN} can be: "
                "choose more with a filter, such as the reason or the time",
            )
        topic = wanted.get("topic", "")
        choice = cls(
            topic,
            {name: wanted[name].strip() for name in FILTERS if wanted.get(name, "").strip()},
            tuple(sorted({place(letter, "dead letter") for letter in letters})),
            wanted.get("to", "").strip(),
            wanted.get("tracker", "").strip() or default_group(topic),
        )
        _ = choice.selection  # which reads the times: a job would find out too late
        return choice

    @property
    def selection(self) -> Selection:
        found = self.filters
        return Selection(
            frozenset({found["source"]} if "source" in found else ()),
            frozenset({found["from_group"]} if "from_group" in found else ()),
            (found["reason"],) if "reason" in found else (),
            milliseconds(found.get("since", ""), "written from"),
            milliseconds(found.get("until", ""), "written to"),
            frozenset(self.places),
        )

    @property
    def fields(self) -> dict[str, str]:
        """Fields of a form that make the same choice, but for single letters."""
        tracker = {} if self.tracker == default_group(self.topic) else {"tracker": self.tracker}
        target = {"to": self.target} if self.target else {}
        return {"topic": self.topic, **self.filters, **target, **tracker}

    @property
    def letters(self) -> str:
        return " ".join(f"{partition}:{offset}" for partition, offset in self.places)

    @property
    def text(self) -> str:
        """What was chosen, in words: of many letters, the first few."""
        parts = [
            f"{name.replace('_', ' ')} {value if len(value) <= _LONGEST else value[:_LONGEST] + '…'}"
            for name, value in self.filters.items()
        ]
        if self.places:
            named = " ".join(self.letters.split()[:_NAMED])
            count = len(self.places)
            more = f" and {count - _NAMED} more" if count > _NAMED else ""
            parts.append(f"{'letter' if count == 1 else 'letters'} {named}{more}")
        return ", ".join(parts) or "all"

    def command(self, action: str, server: str, *, is_dry_run: bool = False) -> str:
        """The command that does the same on the cluster with this address."""
        words = ["kshare", "dlq", action, self.topic]
        for name, value in self.filters.items():
            words += [f"--{name.replace('_', '-')}", value]
        for partition, offset in self.places:
            words += ["--letter", f"{partition}:{offset}"]
        if action == "drop" and not self.filters and not self.places:
            words.append("--all")
        if action == "redrive" and self.target:
            words += ["--to", self.target]
        if self.tracker != default_group(self.topic):
            words += ["--group", self.tracker]
        if is_dry_run:
            words.append("--dry-run")
        words += ["--bootstrap-server", server]
        return shell_line(words)

"""Checks a commit message: `python -m tools.commit_message FILE`, as Git calls a commit-msg hook.

The subject must be in the imperative ("Refuse endless intervals"), have fewer than 72 characters and no full stop. An
area may precede it ("Docs: say what is sent"). A body begins after a blank line. Messages that Git writes (merges,
reverts, fixups) aren't checked.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

TOO_LONG = 72
"""The first length of a subject that is too long."""

_BY_GIT = re.compile(r"(Merge|Revert|fixup!|squash!|amend!)\s")
_AREA = re.compile(r"[\w./`, -]{1,30}: ")
_SCISSORS = re.compile(r"^# -+ >8 -+$.*", re.MULTILINE | re.DOTALL)
_NO_VERB = re.compile(
    "a|an|the|this|that|these|those|it|its|we|our|i|my|you|your|he|she|they|what|who|whoever|whatever|which|when|where"
    "|why|how|some|all|any|every|each|both|no|not|now|more|less|new|old|only|also|in|on|at|of|for|from|to|by|with"
    "|without|and|or|but|if|there"
)
_OTHER_FORM = re.compile(r"\w+(ed|ing|[^siu]s)")
_LIKE_OTHER_FORMS = re.compile(
    "alias|bias|bleed|breed|bring|canvas|cling|embed|exceed|feed|heed|need|ping|proceed|ring|seed|shed|sing|speed|spring"
    "|sting|string|succeed|swing|weed|wring"
)
"""Verbs that look like a past tense, a gerund or a third person."""


def complaints(message: str) -> Iterator[str]:
    """Yield what is wrong with the message."""
    lines = [line for line in _SCISSORS.sub("", message).splitlines() if not line.startswith("#")]
    text = "\n".join(lines).strip()
    subject, _, rest = text.partition("\n")
    if not subject:
        yield "there is no subject"
    elif not _BY_GIT.match(subject):
        if len(subject) >= TOO_LONG:
            yield f"the subject has {len(subject)} characters: keep it under {TOO_LONG}"
        if subject.endswith("."):
            yield "the subject ends with a full stop"
        if not _is_imperative(subject):
            yield f"say what the commit does in the imperative (Add, Fix, Refuse): {subject!r}"
        if rest and not rest.startswith("\n"):
            yield "a blank line is missing between the subject and the body"


def _is_imperative(subject: str) -> bool:
    """Whether the first word may be an imperative, judging by its form."""
    words = _AREA.sub("", subject, count=1).split()
    first = words[0].lower() if words else ""
    if _LIKE_OTHER_FORMS.fullmatch(first):
        return True
    return first.isalpha() and not _NO_VERB.fullmatch(first) and not _OTHER_FORM.fullmatch(first)


def main(arguments: list[str]) -> int:
    """Print what is wrong. Returns 1 if anything is."""
    (file,) = arguments
    found = list(complaints(Path(file).read_text(encoding="utf-8")))
    for complaint in found:
        print(f"commit message: {complaint}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

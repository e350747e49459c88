"""Words that docs/glossary.md says aren't used: not in identifiers, docstrings, comments, messages or pages."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
TABLE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").partition("## Words that aren't used")[2]
ROW = re.compile(r"^\| (?!not \|)([^|\-][^|]*?) \| ([^|]+) \|$", re.MULTILINE)
WORDS = {word: instead for words, instead in ROW.findall(TABLE) for word in words.split(", ")}
"""And what is written instead."""

EXCEPTIONS = {
    ("kshare/traffic/traffic_json.py", "unanswered"): "a key of the JSON that commands print",
    ("kshare/wire/captured_traffic.py", "unanswered"): "a key of the JSON that commands print",
    ("kshare/broker/shares/fetching.py", "burst"): "many records at once",
    ("kshare/worker/rules/rate_limit.py", "burst"): "many records at once",
    ("tools/benches", "burst"): "a load: many records at once",
    ("tools/demos/scaling.py", "burst"): "many records at once",
    ("docs/architecture.md", "burst"): "the first line of rate_limit.py",
    ("docs/benchmarks.md", "burst"): "a load: many records at once",
}
"""Place and word → why."""

_WORD = re.compile(r"[A-Za-z]?[a-z]+|[A-Z]+(?![a-z])")


class Found(NamedTuple):
    place: str
    word: str


def sources() -> Iterator[Path]:
    for folder in ("kshare", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "messages" not in path.parts and "fields" not in path.parts:  # generated from Kafka's schemas
                yield path


def pages() -> list[Path]:
    docs = [path for path in sorted((ROOT / "docs").glob("*.md")) if path.name != "glossary.md"]
    return [*docs, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def forms(word: str) -> set[str]:
    """A word in its usual forms."""
    stem = word.removesuffix("y")
    return {
        word,
        f"{word}s",
        f"{word}ed",
        f"{word}ing",
        *({f"{stem}ies", f"{stem}ied"} if stem != word else ()),
    }


SINGLE = {form: word for word in WORDS if " " not in word for form in {*forms(word), f"un{word}ed"}}
PHRASES = [word for word in WORDS if " " in word]


def words_in(text: str) -> Iterator[str]:
    for part in _WORD.findall(text):
        if part.lower() in SINGLE:
            yield part.lower()


def phrases_in(text: str) -> Iterator[str]:
    flat = " ".join(text.replace("#", " ").split()).lower()
    for phrase in PHRASES:
        if re.search(rf"\b{re.escape(phrase)}\b", flat):
            yield phrase


def found_in(path: Path) -> list[Found]:
    place = str(path.relative_to(ROOT))
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        words = re.sub(r"`[^`]*`|```.*?```", "", text, flags=re.DOTALL)
        return [Found(place, word) for word in {*words_in(words), *phrases_in(words)}]
    found: set[Found] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NAME, tokenize.COMMENT, tokenize.STRING):
            where = f"{place}:{token.start[0]}"
            found |= {Found(where, word) for word in words_in(token.string)}
            if token.type != tokenize.NAME:
                found |= {Found(where, phrase) for phrase in phrases_in(token.string)}
    return sorted(found)


def test_the_glossary_has_such_words() -> None:
    assert len(WORDS) > 8
    assert "answer" in WORDS


def exception_for(found: Found) -> tuple[str, str] | None:
    for place, word in EXCEPTIONS:
        if found.place.startswith(place) and found.word.startswith(word):
            return place, word
    return None


def test_nothing_uses_them_without_a_reason() -> None:
    """Identifiers, comments, docstrings, messages and pages."""
    everything = [found for path in [*sources(), *pages()] for found in found_in(path)]
    assert [found for found in everything if exception_for(found) is None] == [], WORDS
    assert {exception_for(found) for found in everything} == set(EXCEPTIONS), "an exception isn't needed"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("on_answer", "answer"),
        ("OnReply", "reply"),
        ("replies", "replies"),
        ("unanswered_requests", "unanswered"),
        ("replicas", None),
        ("on_response", None),
    ],
)
def test_words_are_found_in_identifiers(text: str, word: str | None) -> None:
    assert [*words_in(text)] == ([] if word is None else [word])

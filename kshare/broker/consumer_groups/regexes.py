"""Regular expressions in the syntax of RE2, with which members subscribe to topics.

`linear_regex` does the matching. What RE2 doesn't have, such as lookahead and backreferences, is refused with the texts
of Kafka, which uses RE2/J. Unicode classes are refused too: topic names are ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from kshare.broker.linear_regex import Alternatives, LinearRegex, Repeat
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode

_MAX_REPEAT = 1000
_POSIX = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "ascii": r"\x00-\x7f",
    "blank": r" \t",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "word": r"\w",
    "xdigit": "0-9A-Fa-f",
}
_FLAGS = {
    "i": re.IGNORECASE,
    "m": re.MULTILINE,
    "s": re.DOTALL,
    "U": re.NOFLAG,  # which of several matches is preferred: only whole names are matched
}
_ESCAPE = r"\\(?:[dDsSwWafnrtv]|x[0-9A-Fa-f]{2}|0[0-7]{0,2}|[^\w\s])"
_TOKEN = re.compile(
    rf"""
    (?P<quoted>\\Q(?P<literal>.*?)(?:\\E|$))
    | (?P<end>\\z)
    | (?P<plain>{_ESCAPE}|\\[AbB])
    | (?P<class>\\[pP])
    | (?P<trailing>\\$)
    | (?P<escape>\\)
    | (?P<named>\(\?P?<(?P<name>\w+)>)
    | (?P<misnamed>\(\?P?<)
    | (?P<flags>\(\?(?P<on>[imsU]*)(?:-(?P<off>[imsU]+))?(?P<scope>[:)]))
    | (?P<perl>\(\?)
    | (?P<group>\()
    | (?P<close>\))
    | (?P<set>\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\])
    | (?P<unclosed>\[)
    | (?P<repeat>(?:[*+?]|\{{(?P<least>\d+)(?:,(?P<most>\d*))?\}})\??)
    | (?P<or>\|)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_MISTAKES = {
    "class": "invalid character class range",
    "trailing": "trailing backslash at end of expression",
    "escape": "invalid escape sequence",
    "misnamed": "invalid named capture",
    "perl": "invalid or unsupported Perl syntax",
    "unclosed": "missing closing ]",
}
_IN_SET = re.compile(rf"\[:(?P<negated>\^?)(?P<posix>\w+):\]|(?P<plain>{_ESCAPE})|(?P<escape>\\)|\[")


def check_regex(regex: str) -> None:
    """Raises INVALID_REGULAR_EXPRESSION with Kafka's message."""
    try:
        compiled(regex)
    except ValueError as problem:
        reason = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {problem}."
        raise RequestError(ErrorCode.INVALID_REGULAR_EXPRESSION, reason) from None


def matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    """The names that match the whole of a valid regular expression."""
    pattern = compiled(regex)
    return frozenset(name for name in names if pattern.fullmatch(name))


@lru_cache(maxsize=256)
def compiled(regex: str) -> LinearRegex:
    """Raises ValueError with RE2/J's description of the problem."""
    try:
        return LinearRegex(_parsed(regex))
    except re.error:
        raise ValueError(_MISTAKES["class"]) from None


def _parsed(regex: str) -> Alternatives:
    """Raises ValueError, or re.error for an invalid set of characters."""
    open_groups = [Alternatives(re.ASCII)]
    names: set[str] = set()
    before = "group"
    for token in _TOKEN.finditer(regex):
        kind, group = token.lastgroup or "", open_groups[-1]
        sequence = group.branches[-1]
        if kind in _MISTAKES:
            raise ValueError(_MISTAKES[kind])
        if kind == "repeat":
            _check_repeat(token, before if sequence else "group")
            sequence[-1] = Repeat(sequence[-1], *_range(token))
        elif kind == "or":
            group.branches.append([])
        elif kind == "close":
            if len(open_groups) < 2:
                raise ValueError("regexp/syntax: internal error")
            open_groups.pop()
        elif kind == "flags" and token["scope"] == ")":
            group.flags = _flags(token, group.flags)
        elif kind in ("flags", "named", "group"):
            if kind == "named":
                if token["name"] in names:
                    raise ValueError("duplicate capture group name")
                names.add(token["name"])
            inner = Alternatives(_flags(token, group.flags))
            sequence.append(inner)
            open_groups.append(inner)
        else:
            sequence.extend(re.compile(leaf, group.flags) for leaf in _leaves(kind, token))
        before = kind
    if len(open_groups) > 1:
        raise ValueError("missing closing )")
    return open_groups[0]


def _leaves(kind: str, token: re.Match[str]) -> list[str]:
    """The token in Python's syntax: a pattern for each character or position."""
    if kind == "quoted":
        return [re.escape(each) for each in token["literal"]]
    if kind == "end":
        return [r"\Z"]
    if kind == "set":
        return [_translated_set(token[0])]
    return [token[0] if kind == "plain" or token[0] in ".^$" else re.escape(token[0])]


def _flags(token: re.Match[str], flags: re.RegexFlag) -> re.RegexFlag:
    """The flags after this token."""
    for letter in token["on"] or "":
        flags |= _FLAGS[letter]
    for letter in token["off"] or "":
        flags &= ~_FLAGS[letter]
    return flags


def _range(token: re.Match[str]) -> tuple[int, int | None]:
    """The least and the most repetitions."""
    if token["least"] is None:
        return int(token[0][0] == "+"), 1 if token[0][0] == "?" else None
    least = int(token["least"])
    if token["most"] is None:
        return least, least
    return least, int(token["most"]) if token["most"] else None


def _check_repeat(token: re.Match[str], before: str) -> None:
    if before in ("group", "named", "flags", "or"):
        raise ValueError("missing argument to repetition operator")
    if before == "repeat":
        raise ValueError("invalid nested repetition operator")
    least, most = int(token["least"] or 0), int(token["most"] or token["least"] or 0)
    if max(least, most) > _MAX_REPEAT or least > most:
        raise ValueError("invalid repeat count")


def _translated_set(text: str) -> str:
    def translated(token: re.Match[str]) -> str:
        if token["escape"]:
            raise ValueError(_MISTAKES["escape"])
        if token["plain"]:
            return token[0]
        if not token["posix"]:
            return r"\["
        if token["negated"] or token["posix"] not in _POSIX:
            raise ValueError(_MISTAKES["class"])
        return _POSIX[token["posix"]]

    return "[" + _IN_SET.sub(translated, text[1:])

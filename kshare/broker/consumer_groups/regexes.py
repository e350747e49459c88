"""Regular expressions in the syntax of RE2, with which members subscribe to topics.

Python's `re` does the matching. What RE2 doesn't have, such as lookahead and backreferences, is refused with the texts
of Kafka, which uses RE2/J. Unicode classes are refused too: topic names are ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

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
    | (?P<flags>\(\?(?P<on>[imsU]*)(?:-[imsU]+)?(?P<scope>[:)]))
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
        _compiled(regex)
    except ValueError as problem:
        reason = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {problem}."
        raise RequestError(ErrorCode.INVALID_REGULAR_EXPRESSION, reason) from None


def matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    """The names that match the whole of a valid regular expression."""
    pattern = _compiled(regex)
    return frozenset(name for name in names if pattern.fullmatch(name))


@lru_cache(maxsize=256)
def _compiled(regex: str) -> re.Pattern[str]:
    """Raises ValueError with RE2/J's description of the problem."""
    translated = _translated(regex)
    try:
        return re.compile(translated, re.ASCII)
    except re.error:
        raise ValueError(_MISTAKES["class"]) from None


def _translated(regex: str) -> str:
    """The regular expression in Python's syntax. Python takes flags only at the beginning, or for a group."""
    parts: list[str] = []
    closers: list[str] = [""]
    names: set[str] = set()
    before = "group"
    for token in _TOKEN.finditer(regex):
        kind, text = token.lastgroup or "", token[0]
        if kind in _MISTAKES:
            raise ValueError(_MISTAKES[kind])
        if kind == "repeat":
            _check_repeat(token, before)
        elif kind == "quoted":
            text = re.escape(token["literal"])
        elif kind == "end":
            text = r"\Z"
        elif kind == "set":
            text = _translated_set(text)
        elif kind == "named" and token["name"] in names:
            raise ValueError("duplicate capture group name")
        elif kind == "flags":
            on = token["on"].replace("U", "")
            text = f"(?{on}:"
        elif kind == "close":
            if len(closers) < 2:
                raise ValueError("regexp/syntax: internal error")
            text = closers.pop()
        if kind == "named":
            names.add(token["name"])
            text = "("
        if kind in ("named", "group") or (kind == "flags" and token["scope"] == ":"):
            closers.append(")")
        elif kind == "flags":
            closers[-1] = ")" + closers[-1]
        parts.append(text)
        before = kind
    if len(closers) > 1:
        raise ValueError("missing closing )")
    return "".join([*parts, *closers])


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

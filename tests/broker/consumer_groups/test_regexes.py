"""Regular expressions of RE2: what matches, and what is refused with which of Kafka's texts."""

from __future__ import annotations

import pytest

from kshare.broker.consumer_groups.regexes import check_regex, matching
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode

NAMES = ("orders", "orders.dlq", "ORDERS", "order_1", "a+b")


@pytest.mark.parametrize(
    ("regex", "found"),
    [
        ("orders", {"orders"}),
        ("orders.*", {"orders", "orders.dlq"}),
        (r"^orders\.dlq$", {"orders.dlq"}),
        ("(?i)orders", {"orders", "ORDERS"}),
        ("(?i:o)rders", {"orders"}),
        ("(o(?i)rders|x)", {"orders"}),
        (r"\Qa+b\E", {"a+b"}),
        ("[[:lower:]]+", {"orders"}),
        (r"order[\d_]{2}", {"order_1"}),
        (r"order(?P<rest>s|_\d)\z", {"orders", "order_1"}),
        (r"\Aorders(?:\.dlq)?", {"orders", "orders.dlq"}),
        ("(?-s)orders|(?<other>ORDERS)", {"orders", "ORDERS"}),
        ("[^a-z]+", {"ORDERS"}),
        ("a[+]b", {"a+b"}),
        ("", set()),
        ("(order)(s|_[0-9])?", {"orders", "order_1"}),
        ("(?i)o(?-i:rders)", {"orders"}),
        (r"(?i)ORDERS(?-i)\.dlq", {"orders.dlq"}),
        ("x(?i)x|ORDERS", {"orders", "ORDERS"}),
        (r"\w{6,}|(a|\+){3}|\w{2}[+]", {"orders", "ORDERS", "order_1"}),
        (r"\w{6}", {"orders", "ORDERS"}),
        (r"o\Brders\b(.dlq)??", {"orders", "orders.dlq"}),
        (r"(^|x)*orders$", {"orders"}),
        (r"\Qor\E+ders", {"orders"}),
        ("(|a|b*)*[+](b|)+", {"a+b"}),
    ],
)
def test_whole_names_match(regex: str, found: set[str]) -> None:
    check_regex(regex)
    assert matching(regex, NAMES) == found


@pytest.mark.parametrize(
    ("regex", "problem"),
    [
        ("[", "missing closing ]"),
        ("(", "missing closing )"),
        ("a)", "regexp/syntax: internal error"),
        ("*a", "missing argument to repetition operator"),
        ("a|*", "missing argument to repetition operator"),
        ("(*)", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a{2}{3}", "invalid nested repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("a{2,1}", "invalid repeat count"),
        ("a\\", "trailing backslash at end of expression"),
        ("[z-a]", "invalid character class range"),
        ("[[:foo:]]", "invalid character class range"),
        (r"\p{Foo}", "invalid character class range"),
        (r"\Z", "invalid escape sequence"),
        (r"(a)\1", "invalid escape sequence"),
        (r"[\y]", "invalid escape sequence"),
        ("(?P<n>a)(?P<n>b)", "duplicate capture group name"),
        ("(?P<n", "invalid named capture"),
        ("(?<=a)", "invalid named capture"),
        ("a(?=b)", "invalid or unsupported Perl syntax"),
        ("(?#c)", "invalid or unsupported Perl syntax"),
        ("(?q)", "invalid or unsupported Perl syntax"),
    ],
)
def test_mistakes(regex: str, problem: str) -> None:
    """The texts are those of Kafka 4.4."""
    with pytest.raises(RequestError) as caught:
        check_regex(regex)
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    expected = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {problem}."
    assert caught.value.message == expected


@pytest.mark.parametrize(
    "regex", ["a{,2}", "[]a]", "[^]a]", "[a-]", r"\d\w\s", r"\x41", "(a{500}){3}", "(?P<1a>)"]
)
def test_unusual_ones_are_accepted(regex: str) -> None:
    check_regex(regex)


@pytest.mark.lengthy
@pytest.mark.parametrize("regex", ["(a|aa)+", "(a*)*", "a*a*a*a*a*a*a*", "(.*){100}c", "((a{0,30}){0,30})"])
def test_matching_takes_linear_time(regex: str) -> None:
    check_regex(regex)
    assert matching(regex, ["a" * 248 + "b", "a" * 248]) <= {"a" * 248}


@pytest.mark.parametrize("regex", ["(a{1000}){1000}", "(((){1000}){1000}){1000}", "(" * 9000 + ")" * 9000])
def test_excessively_large_ones_are_refused(regex: str) -> None:
    with pytest.raises(RequestError, match="too large for the embedded broker"):
        check_regex(regex)

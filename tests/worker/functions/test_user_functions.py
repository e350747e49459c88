"""What users' exceptions say, for logs."""

from __future__ import annotations

from kshare.worker.functions.user_functions import message_of


class Silent(Exception):
    def __str__(self) -> str:
        raise ValueError


def test_messages_are_shortened_to_one_line() -> None:
    assert message_of(ValueError("a\n  b")) == "a b"
    assert message_of(ValueError("x" * 300)) == "x" * 200 + "…"


def test_control_characters_and_surrogates_are_escaped() -> None:
    assert message_of(ValueError("\x1b[31m \x00 \ud800 é")) == r"\x1b[31m \x00 \ud800 é"
    assert message_of(ValueError("\x00" * 300)) == r"\x00" * 200 + "…"


def test_an_exception_that_has_no_message() -> None:
    assert message_of(ValueError()) == ""
    assert message_of(Silent()) == ""

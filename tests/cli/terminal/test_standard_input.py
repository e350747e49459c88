"""Commands that read standard input, when it is closed, as by `<&-`."""

from __future__ import annotations

import sys

import pytest

from tests.cli.running import Kshare


@pytest.mark.parametrize("words", [("decode",), ("decode", "-"), ("encode",), ("encode", "-"), ("pcap", "-")])
def test_closed_standard_input_is_an_error_of_one_line(
    words: tuple[str, ...], run: Kshare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    done = run(*words)
    assert (done.code, done.err) == (1, "kshare: standard input is closed\n")

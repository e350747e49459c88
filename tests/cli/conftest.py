"""`run`: runs a command line in this process, which is faster than starting one."""

from __future__ import annotations

import signal

import pytest

from kshare.cli.app import run as run_app
from kshare.worker.functions.interrupts import STOP_SIGNALS
from tests.cli.running import Done, Kshare


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Kshare:
    def call(*arguments: str) -> Done:
        before = [signal.getsignal(number) for number in STOP_SIGNALS]
        code = run_app(list(arguments))
        after = [signal.getsignal(number) for number in STOP_SIGNALS]
        assert after == before, "processes that this one starts would inherit that"
        return Done(code, *capsys.readouterr())

    return call

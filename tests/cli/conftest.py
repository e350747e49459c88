"""`run`: runs a command line in this process, which is faster than starting one."""

from __future__ import annotations

import pytest

from kshare.cli.app import run as run_app
from tests.cli.running import Done, Kshare


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Kshare:
    def call(*arguments: str) -> Done:
        code = run_app(list(arguments))
        return Done(code, *capsys.readouterr())

    return call

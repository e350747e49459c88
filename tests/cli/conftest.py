"""`run`: the command line inside this process, which is quicker than a process of its own."""

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

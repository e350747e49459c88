"""A chosen port is reserved until the process that chose it ends, even if nothing listens on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.kafka import ports

_ROOT = Path(__file__).parents[3]
_CHOOSES_AND_WAITS = """
import sys
from tools.kafka.ports import free_ports
print(*free_ports(1), flush=True)
sys.stdin.read()
"""


@pytest.mark.lengthy
def test_chosen_port_is_reserved_until_its_process_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _CHOOSES_AND_WAITS],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as chooser:
        try:
            assert chooser.stdout is not None
            chosen = int(chooser.stdout.readline())
            assert ports.is_free(chosen)
            monkeypatch.setattr(ports, "_RANGE", range(chosen, chosen + 1))
            with pytest.raises(RuntimeError, match="No 1 free ports"):
                ports.free_ports(1)
            chooser.kill()
            chooser.wait()
            assert ports.free_ports(1) == [chosen]
        finally:
            chooser.kill()


def test_process_gets_each_port_once(monkeypatch: pytest.MonkeyPatch) -> None:
    (chosen,) = ports.free_ports(1)
    monkeypatch.setattr(ports, "_RANGE", range(chosen, chosen + 1))
    with pytest.raises(RuntimeError, match="No 1 free ports"):
        ports.free_ports(1)

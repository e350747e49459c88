"""`kshare exporter` in a process of its own, and its metrics."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import urlopen

from tests.cli.running import DEADLINE, KSHARE, ROOT
from tests.exporter.running_exporter import Labels, parse_metrics

_USUAL = (
    "the cluster hasn't been read yet",
    "groups that can't be read: no group ",
    "all groups can be read again",
)
"""Said if the machine is busy, and if the test starts the group's members after the exporter."""


@contextmanager
def exporter(
    bootstrap: str, *words: str, how: signal.Signals = signal.SIGTERM, errors: str = ""
) -> Iterator[str]:
    """Yields the address. The exporter must end well at the signal, and say nothing on stderr besides `errors`."""
    process = subprocess.Popen(
        [*KSHARE, "exporter", "-b", bootstrap, "--listen", "127.0.0.1:0", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("metrics: http://127.0.0.1:"), line
        yield line.split()[1].removesuffix("/metrics")
        process.send_signal(how)
        out, err = process.communicate(timeout=DEADLINE)
        said = [line for line in err.splitlines() if not any(usual in line for usual in _USUAL)]
        assert (process.returncode, out, errors in err, bool(said)) == (0, "", True, bool(errors)), err
    finally:
        process.kill()
        process.communicate()


def metrics(address: str) -> dict[str, dict[Labels, float]]:
    with urlopen(f"{address}/metrics", timeout=DEADLINE) as response:
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return parse_metrics(response.read().decode())

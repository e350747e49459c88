"""Measures the throughput and memory of `kshare decode` and `kshare pcap`, and the time of `--help`.

One capture has packets of the loopback's size, one of Ethernet's size, both with full fetches. One has fetches of
various sizes, like those of a consumer that keeps up. In the last one, each exchange has a single record, so that it
measures exchanges rather than bytes. The time is CPU time, which other load on the machine doesn't affect: all of these
run in one thread and wait only for the disk.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from tools.benches.child import ROOT
from tools.benches.study import Figure, Study, Wishes
from tools.benches.traffic_files import RECORD_BYTES, write_capture, write_segment

ROUNDS = 5
_MEGABYTE = 1_000_000
_LARGE, _SMALL = 200 * _MEGABYTE, 20 * _MEGABYTE
_LOOPBACK, _ETHERNET = 32_768, 1_448
_FULL, _MIXED, _SINGLE = [500], [1, 2, 5, 10, 20, 50], [1]
"""The numbers of records in the fetches of a round."""
_KSHARE = [sys.executable, "-m", "kshare.cli"]

Write = Callable[[Path, int], None]


def study(wishes: Wishes) -> Study:
    loopback = partial(write_capture, records=_FULL, packet=_LOOPBACK)
    ethernet = partial(write_capture, records=_FULL, packet=_ETHERNET)
    mixed = partial(write_capture, records=_MIXED, packet=_ETHERNET)
    singles = partial(write_capture, records=_SINGLE, packet=_ETHERNET)
    return Study(
        "decode",
        [
            f"files of {_LARGE // _MEGABYTE} MB (that of single records: {_SMALL // _MEGABYTE} MB), records of "
            f"{RECORD_BYTES} bytes, "
            "one process for each, including its start",
        ],
        [
            Figure("throughput", "MB per second of CPU time", more_is_better=True, form=".1f"),
            Figure("memory", "maximum of resident MiB", form=".1f"),
            Figure("time", "milliseconds of CPU time"),
        ],
        {
            "decode, log segment": partial(_through, "decode", "segment.log", write_segment, _LARGE),
            "pcap, packets of the loopback": partial(_through, "pcap", "loopback", loopback, _LARGE),
            "pcap, packets of Ethernet": partial(_through, "pcap", "ethernet", ethernet, _LARGE),
            "pcap, fetches of all sizes": partial(_through, "pcap", "mixed", mixed, _LARGE),
            "pcap, single records": partial(_through, "pcap", "singles", singles, _SMALL),
            "--help": _help,
        },
        [],
    )


def _through(command: str, name: str, write: Write, size: int) -> Mapping[str, float]:
    path = _folder() / name
    if not path.exists():
        write(path, size)
    seconds, mebibytes = _run([*_KSHARE, command, str(path)])
    return {"throughput": path.stat().st_size / _MEGABYTE / seconds, "memory": mebibytes}


@functools.cache
def _folder() -> Path:
    """A folder that is created on first use and removed when this process ends."""
    folder = mkdtemp(prefix="kshare-bench-")
    atexit.register(shutil.rmtree, folder)
    return Path(folder)


def _help() -> Mapping[str, float]:
    seconds, mebibytes = _run([*_KSHARE, "--help"])
    return {"time": seconds * 1000, "memory": mebibytes}


def _run(command: list[str]) -> tuple[float, float]:
    """Run a command. Returns its CPU time in seconds, and its maximum memory in MiB."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024

"""The command `kshare`: a folder for each subcommand; `terminal` and `cluster` hold shared code.

This module is the entry point. It handles missing packages, interrupts and closed pipes. Exit codes: 1 for a failure, 2
for wrong usage, and as in shells 130 (interrupted) and 141 (closed pipe).
"""

from __future__ import annotations

import io
import os
import signal
import sys

from kshare.cli.terminal.stop_signals import ends_with_command

_INTERRUPTED = 130
_PIPE_CLOSED = 141


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # don't fail on characters that can't be encoded
    if sys.stdout is None:
        sys.exit("kshare: standard output is closed: redirect it to a file, or to /dev/null")
    ends_with_command()
    try:
        try:
            code = _run()
            sys.stdout.flush()
        finally:  # another Ctrl-C would end Python with an exit code of its own
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes stdout at exit, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _PIPE_CLOSED
    sys.exit(code)


def _run() -> int:
    if sys.argv[1:2] == ["--version"]:
        from kshare.installation import describe_installation

        sys.stdout.write(f"{describe_installation()}\n")
        return 0
    if sys.argv[1:2] == ["broker"]:
        from kshare.cli.broker import options

        return options.run(sys.argv[2:])
    try:
        from kshare.cli.app import run

        return run(sys.argv[1:])
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        needed = f"this needs {package}: pip install 'kshare[cli]' (in a clone: '.[cli]')"
        sys.stderr.write(f"kshare: {missing if 'pip install' in str(missing) else needed}\n")
        return 1

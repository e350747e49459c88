"""Options of `kshare broker`.

The only command that doesn't use typer: it starts in less time than typer takes to load, and typer is not installed
with the extra that is for the broker alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn, TypeVar

from kshare.cli.terminal.stop_signals import stop_signals
from kshare.log_text import escaped

T = TypeVar("T")

_PORTS = range(1 << 16)


class NotUnderstood(Exception):
    """The command line is wrong; the text says how."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Report the problem on one line, as all commands do."""
        raise NotUnderstood(message)


def run(arguments: list[str]) -> int:
    """Run until stopped. Returns the exit code."""
    try:
        chosen = _parser().parse_args(arguments)
        # Imported late: help doesn't need them.
        from kshare.broker import program
        from kshare.broker.settings import common_settings

        settings: dict[str, str] = {}
        if chosen.server_properties is not None:
            from kshare.broker.server_properties import server_properties

            settings |= server_properties(chosen.server_properties)
        topics = _once("--topic", map(program.topic, chosen.topic))
        settings |= _once("--setting", map(_pair, chosen.setting))
        settings |= common_settings(chosen.min_lock_ms, chosen.auto_create_topics)
    except (NotUnderstood, ValueError) as problem:
        return _fail(problem, 2)
    choice = program.BrokerArguments(
        chosen.host,
        chosen.port,
        chosen.nodes,
        chosen.release,
        topics,
        settings,
        chosen.data_dir,
        chosen.metrics_port,
    )
    try:
        with stop_signals() as signals:
            program.serve(choice, _say, signals.wait)
    except program.StartupError as problem:
        return _fail(problem, 1)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="kshare broker",
        description="Run an embedded Kafka broker, without a JVM, until Ctrl-C.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    add(
        "--port",
        type=_number(_PORTS),
        default=9092,
        help="port of the first node; other nodes use the next ports; 0: any free ports (9092)",
    )
    add(
        "--topic",
        "-t",
        action="append",
        default=[],
        metavar="NAME[:PARTITIONS]",
        help="create this topic at the start; may be repeated",
    )
    add("--data-dir", type=Path, metavar="FOLDER", help="keep the data in this folder (default: in memory)")
    add("--nodes", type=_number(range(1, 1000)), default=1, help="number of brokers (1)")
    add("--release", choices=("4.1", "4.3", "4.4"), default="4.4", help="Kafka version to emulate (4.4)")
    add(
        "--setting",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a Kafka broker setting; may be repeated",
    )
    add(
        "--server-properties",
        type=Path,
        metavar="FILE",
        help="a file with broker settings, like Kafka's server.properties; --setting overrides it",
    )
    add(
        "--min-lock-ms",
        type=_number(range(1, 1 << 31)),
        metavar="MS",
        help="shortest record lock duration that a group may set (15000)",
    )
    add(
        "--no-auto-create-topics",
        dest="auto_create_topics",
        action="store_false",
        default=None,
        help="don't create topics automatically",
    )
    add(
        "--metrics-port",
        type=_number(_PORTS),
        metavar="PORT",
        help="serve Prometheus metrics at /metrics on this port",
    )
    return parser


def _number(allowed: range) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) not in allowed:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {allowed[0]} to {allowed[-1]}")
        return int(text)

    return parse


def _pair(text: str) -> tuple[str, str]:
    name, is_there, value = (part.strip() for part in text.partition("="))
    if not is_there or not name:
        raise NotUnderstood(f"--setting {text}: write NAME=VALUE")
    return name, value


def _once(option: str, pairs: Iterable[tuple[str, T]]) -> dict[str, T]:
    found: dict[str, T] = {}
    for name, value in pairs:
        if name in found:
            raise NotUnderstood(f"{option}: {name} is given twice")
        found[name] = value
    return found


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _fail(problem: Exception, code: int) -> int:
    sys.stderr.write(f"kshare: {escaped(' '.join(str(problem).split()))}\n")
    return code

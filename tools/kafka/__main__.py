"""`python -m tools.kafka start --release 4.3.1 --nodes 3 --port 9092` and `python -m tools.kafka install 4.3.1`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tools.kafka.cluster import Cluster
from tools.kafka.ivy import ResolutionError
from tools.kafka.jars import COMPILER, RELEASES, TESTED_RELEASES, TOOLS, install, say_line
from tools.kafka.java import NoJavaError, archive_of, writing
from tools.kafka.listeners import SASL_MECHANISMS, USERS, Listener
from tools.kafka.node import BrokerFailedError
from tools.kafka.tool import run_tool


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 1 if jars can't be installed or brokers can't be started."""
    options = _parser().parse_args(arguments)
    try:
        if options.command == "install":
            return _install(options.releases)
        return _start(options)
    except (BrokerFailedError, NoJavaError, ResolutionError, TimeoutError) as problem:
        print(problem, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.kafka", description="Real Kafka brokers on this machine."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    installing = commands.add_parser(
        "install", help="fetch the jars of these releases (without arguments, all jars)"
    )
    installing.add_argument("releases", nargs="*", metavar="RELEASE", help=", ".join(RELEASES))
    starting = commands.add_parser("start", help="run brokers until Ctrl-C; then their data is deleted")
    starting.add_argument("--release", choices=RELEASES, default=TESTED_RELEASES[-1])
    starting.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    starting.add_argument("--port", type=int, help="port of the first node; the others use the next ports")
    starting.add_argument("--listener", type=Listener, choices=list(Listener), action="append", default=[])
    return parser


def _install(releases: Sequence[str]) -> int:
    unknown = set(releases) - set(RELEASES)
    if unknown:
        print(f"Unknown: {', '.join(sorted(unknown))}; known: {', '.join(RELEASES)}.", file=sys.stderr)
        return 2
    names = releases or (TOOLS, *RELEASES, COMPILER)
    # Fetching waits for responses, nearly all the time.
    with ThreadPoolExecutor(len(names)) as pool:
        for done in [pool.submit(_install_one, name) for name in names]:
            done.result()
    return 0


def _install_one(name: str) -> None:
    install(name)
    if name == TOOLS:
        _make_archive(name, _write_tools_archive)
    elif name in TESTED_RELEASES:
        _make_archive(name, partial(_write_broker_archive, name))


def _make_archive(name: str, write: Callable[[Path], None]) -> None:
    """Run something once, so that its JVM writes an archive of the classes when it ends."""
    archive = archive_of(name)
    if archive.exists():
        return
    say_line(f"kafka {name}: running it once, so that it starts faster from now on")
    written = archive.with_suffix(f".{os.getpid()}")
    try:
        write(written)
        written.rename(archive)
    except FileNotFoundError:
        say_line(f"kafka {name}: its JVM wrote no archive, so it will start more slowly")
    finally:
        written.unlink(missing_ok=True)


def _write_broker_archive(release: str, written: Path) -> None:
    cluster = Cluster(release)
    broker = cluster.nodes[0]
    broker.write_archive(written)
    with cluster:
        broker.stop()


def _write_tools_archive(written: Path) -> None:
    """With a consumer that finds no broker: it loads what all tools share."""
    consumer = ("--bootstrap-server", "127.0.0.1:1", "--topic", "none", "--timeout-ms", "500")
    run_tool("org.apache.kafka.tools.consumer.ConsoleShareConsumer", *consumer, options=writing(written))


def _start(arguments: argparse.Namespace) -> int:
    install(arguments.release)
    cluster = Cluster(arguments.release, arguments.nodes, arguments.listener, first_port=arguments.port)
    # SIGINT too, because shells start background jobs with SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    try:
        with cluster:
            print(
                f"Kafka {cluster.release} is ready at {cluster.bootstrap}; its logs are in {cluster.folder}."
            )
            _describe_other_listeners(cluster, arguments.listener)
            print("Press Ctrl-C to stop it.", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        pass
    return 0


def _describe_other_listeners(cluster: Cluster, listeners: Sequence[Listener]) -> None:
    for listener in listeners:
        print(f"{listener}: {cluster.bootstrap_of(listener)}")
    if any(listener.is_encrypted for listener in listeners):
        pair = cluster.authority.client()
        print(f"Authority: {cluster.authority.certificate}; a client's certificate: {pair.both}")
    if any(listener.asks_for_a_user for listener in listeners):
        users = ", ".join(f"{user.name} ({user.password})" for user in USERS)
        print(f"Users: {users}, by {', '.join(SASL_MECHANISMS)}")


def _leave(number: int, frame: object) -> None:
    """End this process, and the brokers with it."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

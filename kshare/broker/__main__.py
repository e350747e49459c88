"""python -m kshare.broker --port 9092 --topic orders:4: an embedded broker for a laptop."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import anyio

from kshare.broker.broker import Broker
from kshare.broker.cluster import Node, check_topic_name
from kshare.broker.profiles import DEFAULT_RELEASE
from kshare.broker.refusal import Refusal
from kshare.broker.running import run
from kshare.broker.storage.folder import DataFolder
from kshare.broker.storage.snapshot import UnreadableFolder


def main() -> None:
    options = _parse()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        anyio.run(_serve, options)
    except OSError as problem:
        sys.exit(f"Can't listen on {options.host}:{options.port}: {problem.strerror}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m kshare.broker", description="A Kafka broker without a JVM."
    )
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (127.0.0.1)")
    parser.add_argument("--port", type=int, default=9092, help="of the first node; the others follow (9092)")
    parser.add_argument("--nodes", type=int, default=1, help="how many brokers to be (1)")
    parser.add_argument("--release", choices=("4.1", "4.3", "4.4"), default=DEFAULT_RELEASE)
    parser.add_argument("--topic", action="append", default=[], type=_topic, metavar="NAME:PARTITIONS")
    parser.add_argument("--setting", action="append", default=[], type=_pair, metavar="NAME=VALUE")
    parser.add_argument("--data-dir", type=Path, help="where to keep everything (in memory)")
    parser.add_argument("--metrics-port", type=int, help="serve GET /metrics for Prometheus there")
    return parser.parse_args()


def _topic(text: str) -> tuple[str, int]:
    name, _, count = text.partition(":")
    try:
        check_topic_name(name)
    except Refusal as refusal:
        raise argparse.ArgumentTypeError(refusal.message) from None
    if count and not (count.isdecimal() and int(count) > 0):
        raise argparse.ArgumentTypeError(f"{count!r} is no number of partitions")
    return name, int(count or 1)


def _pair(text: str) -> tuple[str, str]:
    name, is_there, value = text.partition("=")
    if not is_there:
        raise argparse.ArgumentTypeError(f"{text!r} has no =")
    return name, value


async def _serve(options: argparse.Namespace) -> None:
    with ExitStack() as stack:
        try:
            broker = Broker(nodes=options.nodes, settings=dict(options.setting), release=options.release)
            if options.data_dir is not None:
                folder = stack.enter_context(closing(DataFolder(options.data_dir)))
                folder.attach(broker)
        except Refusal as refusal:
            sys.exit(refusal.message)
        except UnreadableFolder as problem:
            sys.exit(f"Can't use {options.data_dir}: {problem}.")
        for index, node in enumerate(broker.cluster.nodes.values()):
            _place(node, options, index)
        async with run(broker) as running:
            for name, partitions in options.topic:
                if name not in broker.cluster.topics:
                    broker.cluster.create_topic(name, partitions)
            if options.metrics_port is not None:
                await running.start_metrics(options.host, options.metrics_port)
            print(f"listening on {running.bootstrap}", flush=True)  # noqa: T201
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    return


def _place(node: Node, options: argparse.Namespace, index: int) -> None:
    node.host = options.host
    node.port = options.port and options.port + index


if __name__ == "__main__":
    main()

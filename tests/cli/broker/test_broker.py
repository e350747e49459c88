"""`kshare broker`: options, errors, and which modules are loaded before it listens."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kshare.protocol.messages import DescribeConfigsRequest, MetadataRequest
from kshare.protocol.messages.describe_configs_request import DescribeConfigsResource
from tests.cli.running import DEADLINE, KSHARE, ROOT, kshare, python
from tests.helpers.plain_client import PlainClient, plain_client

pytestmark = pytest.mark.lengthy

_BROKER = 4
IN_USE = os.strerror(errno.EADDRINUSE)


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[tuple[str, int]]]]:
    """The process and the addresses that it prints."""
    command = [*KSHARE, "broker", "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            said, _, addresses = process.stdout.readline().partition(" on ")
            assert said == "listening"
            found = [address.rpartition(":") for address in addresses.split(",")]
            yield process, [(host, int(port)) for host, _, port in found]
        finally:
            process.kill()


def topics(client: PlainClient) -> dict[str | None, int]:
    found = client.ask(MetadataRequest(topics=None)).topics
    return {topic.name: len(topic.partitions) for topic in found}


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_topics_and_settings_are_applied_and_signals_end_it(end: signal.Signals) -> None:
    chosen = ("--topic", "orders:3", "--topic", "one", "--setting", "message.max.bytes=2000")
    with running(*chosen) as (process, (address,)):
        with plain_client(address) as client:
            assert topics(client) == {"orders": 3, "one": 1}
            resources = [DescribeConfigsResource(_BROKER, "1", ["message.max.bytes"])]
            (result,) = client.ask(DescribeConfigsRequest(resources)).results
            assert [entry.value for entry in result.configs] == ["2000"]
        process.send_signal(end)
        assert process.wait(DEADLINE) == 0


def test_common_test_settings_have_their_own_options() -> None:
    names = ["group.share.min.record.lock.duration.ms", "auto.create.topics.enable"]
    for chosen, expected in (
        ((), ["15000", "true"]),
        (("--min-lock-ms", "200", "--no-auto-create-topics"), ["200", "false"]),
        (("--min-lock-ms", "200", "--setting", f"{names[0]}=300"), ["200", "true"]),
    ):
        with running(*chosen) as (_, (address,)), plain_client(address) as client:
            resources = [DescribeConfigsResource(_BROKER, "1", names)]
            (result,) = client.ask(DescribeConfigsRequest(resources)).results
            found = {entry.name: entry.value for entry in result.configs}
            assert [found[name] for name in names] == expected


def test_settings_of_a_file_are_applied_and_overridden(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=/secret\nmessage.max.bytes=3000\nnum.partitions = 3\n")
    chosen = ("--server-properties", str(file), "--setting", " num.partitions = 4 ")
    with running(*chosen) as (_, (address,)), plain_client(address) as client:
        resources = [DescribeConfigsResource(_BROKER, "1", ["message.max.bytes", "num.partitions"])]
        (result,) = client.ask(DescribeConfigsRequest(resources)).results
        assert {entry.name: entry.value for entry in result.configs} == {
            "message.max.bytes": "3000",
            "num.partitions": "4",
        }
    file.write_text("ssl.key.passwrd=secret\n")
    refused = kshare("broker", "--server-properties", str(file))
    advice = "Unknown broker config name: ssl.key.passwrd. Did you mean ssl.key.password?"
    assert (refused.code, refused.err) == (2, f"kshare: {file}: {advice}\n")


def test_metrics_are_served_at_the_printed_address() -> None:
    with running("--metrics-port", "0") as (process, _):
        assert process.stdout is not None
        said, _, where = process.stdout.readline().strip().partition(" at ")
        assert said == "metrics"
        with urllib.request.urlopen(where, timeout=DEADLINE) as response:
            assert b"kshare_broker_share_groups" in response.read()
        port = where.split(":")[2].split("/")[0]
        taken = kshare("broker", "--port", "0", "--metrics-port", port)
        assert (taken.code, taken.err) == (1, f"kshare: can't listen on 127.0.0.1:{port}: {IN_USE}\n")


def test_several_nodes(tmp_path: Path) -> None:
    with running("--nodes", "3", "--release", "4.1") as (_, addresses):
        assert len({port for _, port in addresses}) == 3
        for address in addresses:
            with plain_client(address) as client:
                assert len(client.ask(MetadataRequest(topics=[])).brokers) == 3


def test_data_directory_keeps_topics_and_is_locked(tmp_path: Path) -> None:
    folder = ("--data-dir", str(tmp_path / "data"))
    with running(*folder, "--topic", "orders:3"):
        taken = kshare("broker", "--port", "0", *folder)
        assert (taken.code, taken.err.count("\n")) == (1, 1)
        assert "another broker is using it" in taken.err
        other = kshare("broker", "--port", "0", "--data-dir", str(tmp_path / "data" / "lock"))
        assert (other.code, other.err) == (1, f"kshare: can't use {tmp_path}/data/lock: it is not a folder\n")
    refused = kshare("broker", "--port", "0", *folder, "--topic", "orders:5")
    reason = "topic 'orders' has 3 partitions in the data folder, not 5: write 3, or use another folder"
    assert (refused.code, refused.err) == (1, f"kshare: {reason}\n")
    with running(*folder, "--topic", "orders") as (_, (address,)), plain_client(address) as client:
        assert topics(client) == {"orders": 3}


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["--nope"], 2, "unrecognized arguments: --nope"),
        (["--port", "x"], 2, "--port: 'x' is not a number from 0 to 65535"),
        (["--nodes", "0"], 2, "--nodes: '0' is not a number"),
        (["--nodes", "5", "--port", "65533"], 1, "would need ports above 65535"),
        (["--topic", "a:x"], 2, "--topic a: 'x' is not a valid number of partitions"),
        (["--topic", "a:10001"], 2, "'10001' is not a valid number of partitions, write 1 to 10000"),
        (["--topic", "a b"], 2, "--topic 'a b' isn't the name of a topic: use letters, digits, '.'"),
        (["--release", "3.9"], 2, "invalid choice: '3.9'"),
        (["--setting", "retention"], 2, "--setting retention: write NAME=VALUE"),
        (["--setting", "=3"], 2, "--setting =3: write NAME=VALUE"),
        (["--setting", "a=1", "--setting", "a =2"], 2, "--setting: a is given twice"),
        (["--topic", "a", "--topic", "a:3"], 2, "--topic: a is given twice"),
        (["--server-properties", "/proc/nowhere"], 2, "can't read /proc/nowhere: No such file or directory"),
        (["--setting", "retention=1"], 1, "Unknown broker config name: retention"),
        (["--host", "192.0.2.1"], 1, "can't listen on 192.0.2.1:9092"),
        (["--port", "0", "--data-dir", "/proc/nowhere"], 1, "can't use /proc/nowhere"),
    ],
)
def test_wrong_usage_is_reported_on_one_line(arguments: list[str], code: int, reason: str) -> None:
    done = kshare("broker", *arguments)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert reason in done.err


def test_help_names_every_option_and_is_the_same_with_and_without_typer() -> None:
    done = python(
        "from kshare.cli.app import run\n"
        "try: run(['broker', '--help'])\n"
        "except SystemExit as end: assert not end.code, end.code"
    )
    assert done.stdout == kshare("broker", "--help").out
    for option in ("--port", "--topic", "--data-dir", "--setting", "--metrics-port", "--release", "--nodes"):
        assert option in done.stdout


def test_modules_that_only_requests_need_are_loaded_after_it_listens() -> None:
    """Its short start-up time depends on this."""
    late = (
        "{'typer', 'pydantic', 'rich', 'construct', 'crc32c', 'kshare.client', 'kshare.broker.shares.shares',"
        " 'kshare.broker.metrics', 'kshare.broker.storage', 'kshare.broker.share_groups.share_groups',"
        " 'kshare.broker.classic_groups.coordinator', 'kshare.broker.handlers.share_fetch'}"
    )
    done = python(
        "import os, signal, sys\n"
        "sys.argv = ['kshare', 'broker', '--port', '0']\n"
        "from kshare.cli import main\n"
        "from kshare.cli.broker import options as broker\n"
        "broker._say = lambda line: os.kill(os.getpid(), signal.SIGTERM)\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        f"print(sorted({late} & set(sys.modules)))"
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")

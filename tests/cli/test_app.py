"""Invalid command lines end with exit code 2 and one line that says what to write."""

from __future__ import annotations

import pytest

from kshare.testing import Broker
from tests.cli.running import Kshare


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("groups list -b localhost", "'localhost' has no port: write localhost:9092"),
        ("groups list -b localhost:99999", "'99999' is not a port"),
        ("top --once -b x", "'x' has no port: write x:9092"),
        ("trace --listen foo", "--listen: 'foo' has no port: write foo:9092"),
        ("trace --listen 127.0.0.1:1,127.0.0.1:2", "--listen takes one address"),
        ("trace --api Foo", "no API is called 'Foo'"),
        ("decode --api bar 00", "no API is called 'bar'"),
        ("decode --as bar 00", "no message is called 'bar'"),
        ("decode --as ShareFetchRequest --version 99 00", "ShareFetchRequest has no version 99"),
        ("consume -t o -X foo", "'foo' should be name=value"),
        ("consume -t o -X max.poll=5", "there is no option 'max.poll'"),
        ("produce -t o --size 3", "--size is for generated records: add --count"),
        ("produce -t o --count 3 file", "--count generates records: leave the files out"),
        ("produce -t o --input json -K :", "--key-separator is for lines, not for --input json"),
        ("produce -t o --count 0", "Invalid value for '--count': must be 1 or more"),
        ("produce -t o --count x", "Invalid value for '--count': 'x' is not a whole number"),
        ("produce -t o --rate x", "Invalid value for '--rate': 'x' is not a number"),
        ("lag --watch 90000", "Invalid value for '--watch': must be 86400 or less"),
        (
            "top --view foo",
            "Invalid value for '--view': 'foo' is not one of 'groups', 'partitions', 'members'",
        ),
        ("groups reset-offsets g --to-offset -1", "Invalid value for '--to-offset': must be 0 or more"),
        ("groups list --state Sleeping", "--state Sleeping: the states are Stable, Empty, Dead, "),
        ("broker --setting foo", "--setting foo: write NAME=VALUE"),
    ],
)
def test_invalid_command_lines(line: str, text: str, run: Kshare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", "127.0.0.1:1")
    done = run(*line.split())
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done
    assert text in done.err
    assert "Input should" not in done.err


def test_command_without_a_cluster(run: Kshare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KSHARE_BOOTSTRAP_SERVER", raising=False)
    done = run("groups", "list")
    assert (done.code, done.out) == (2, "")
    assert "no cluster given: use --bootstrap-server" in done.err


def test_fields_of_formats_are_listed(run: Kshare) -> None:
    done = run("consume", "--format", "%?")
    assert (done.code, done.err) == (0, "")
    assert "%t topic\n" in done.out
    assert done.out.endswith("\n%%\n")


def test_states_may_be_written_in_any_case(kshare_broker: Broker, run: Kshare) -> None:
    done = run("groups", "list", "--state", "empty", "-b", kshare_broker.bootstrap)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    "group", ["groups", "groups config", "topics", "dlq", "spark", "spark journal", "worker"]
)
def test_help_of_commands_is_not_cut(group: str, run: Kshare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = run(*group.split(), "--help").out
    assert "Commands:" in shown
    assert "..." not in shown.replace("[ARGS]...", "")

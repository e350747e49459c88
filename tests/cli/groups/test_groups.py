"""`kshare groups` with an embedded cluster."""

from __future__ import annotations

import json
from pathlib import Path
from time import monotonic, sleep

import pytest
from kafka import KafkaConsumer

from kshare import sync
from kshare.testing import Broker
from tests.cli.running import Kshare, assert_refused, without_colours
from tests.cli.terminals import on_terminal

GROUP = "shippers"


@pytest.fixture
def broker(kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Broker:
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", kshare_broker.bootstrap)
    kshare_broker.create_topic("orders", 2)
    kshare_broker.produce("orders", [b"a", b"b", b"c"])
    return kshare_broker


@pytest.fixture
def group(broker: Broker, run: Kshare) -> str:
    """An empty group whose offset is at the end of the topic."""
    done = run("groups", "reset-offsets", GROUP, "--topic", "orders", "--to-latest", "--execute")
    assert done.code == 0, done.err
    return GROUP


def test_groups_are_listed(group: str, run: Kshare) -> None:
    done = run("groups", "list")
    assert (done.code, done.err) == (0, "")
    heads, row = (line.split() for line in done.out.splitlines())
    assert heads == ["GROUP", "TYPE", "STATE"]
    assert [row[0], row[1].lower(), row[2]] == [group, "share", "Empty"]
    (listed,) = json.loads(run("groups", "list", "--all-types", "--json").out)
    assert (listed["group"], listed["state"]) == (group, "Empty")
    assert run("groups", "list", "--state", "Stable").out == "no visible groups\n"


@pytest.mark.lengthy
def test_offsets_members_and_state_are_described(broker: Broker, run: Kshare) -> None:
    with sync.ShareConsumer(broker.bootstrap, group=GROUP, topics=["orders"], client_id="truck"):
        deadline = monotonic() + 20
        while "orders:0,1" not in (done := run("groups", "describe", GROUP, "--members")).out:
            assert monotonic() < deadline, done
            sleep(0.05)
        assert "truck" in done.out
        done = run("groups", "describe", "--state", "--members", "--offsets", "--json")
        (found,) = json.loads(done.out)
        assert (found["group"], found["state"], found["assignor"]) == (GROUP, "Stable", "simple")
        assert found["members"][0]["assignment"] == [["orders", 0], ["orders", 1]]
        assert [row["partition"] for row in found["offsets"]] == [0, 1]
        for words in (["delete", GROUP], ["reset-offsets", GROUP, "--to-latest", "--execute"]):
            assert_refused(run("groups", *words), 1, "NON_EMPTY_GROUP")


def test_group_without_members_is_reported(group: str, run: Kshare) -> None:
    done = run("groups", "describe", group, "--members")
    assert (done.code, done.out) == (0, f"group {group} has no members\n")
    assert run("groups", "describe", group, "--members", "--verbose").out == done.out
    (found,) = json.loads(run("groups", "describe", group, "--members", "--json").out)
    assert found == {"group": group, "members": []}


@pytest.mark.lengthy
def test_groups_with_and_without_members_are_shown_together(broker: Broker, group: str, run: Kshare) -> None:
    with sync.ShareConsumer(broker.bootstrap, group="packers", topics=["orders"], client_id="truck"):
        deadline = monotonic() + 20
        while "truck" not in (done := run("groups", "describe", "--members")).out:
            assert monotonic() < deadline, done
            sleep(0.05)
    heads, row, none = done.out.splitlines()
    assert heads.split()[0] == "GROUP"
    assert row.split()[0] == "packers"
    assert none == f"group {group} has no members"


def test_group_without_offsets_is_reported(broker: Broker, run: Kshare) -> None:
    with sync.ShareConsumer(broker.bootstrap, group=GROUP, topics=["returns"]):
        deadline = monotonic() + 20
        while (done := run("groups", "describe", GROUP)).code:
            assert monotonic() < deadline, done
            sleep(0.05)
        assert done.out == f"group {GROUP} has no offsets\n"


def test_offsets_are_shown_with_lag(group: str, run: Kshare) -> None:
    heads, first, second = run("groups", "describe").out.splitlines()
    assert heads.split() == ["GROUP", "TOPIC", "PARTITION", "START", "LAG"]
    assert first.split()[:4] == [group, "orders", "0", "3"]
    assert second.split()[:4] == [group, "orders", "1", "0"]


@pytest.mark.lengthy
def test_verbose_shows_more_columns(broker: Broker, run: Kshare) -> None:
    with sync.ShareConsumer(broker.bootstrap, group=GROUP, topics=["orders"], rack="north") as consumer:
        consumer.subscribe(["orders", "returns"])
        deadline = monotonic() + 20
        while "orders returns" not in (done := run("groups", "describe", "--members", "--verbose")).out:
            assert monotonic() < deadline, done
            sleep(0.05)
        heads, row = (line.split() for line in done.out.splitlines())
        assert heads[-2:] == ["RACK", "TOPICS"]
        assert row[-3:] == ["north", "orders", "returns"]
        assert f"{broker.bootstrap} (1)" in run("groups", "describe", "--state", "--verbose").out
    heads, first, *_ = (line.split() for line in run("groups", "describe", "--verbose").out.splitlines())
    assert heads == ["GROUP", "TOPIC", "PARTITION", "EPOCH", "START", "LAG"]
    assert len(first) == 6


@pytest.mark.lengthy
def test_reset_needs_execute(group: str, run: Kshare) -> None:
    done = run("groups", "reset-offsets", group, "--topic", "orders:0", "--to-earliest")
    assert done.code == 0
    assert done.out.splitlines()[1].split() == [group, "orders", "0", "3", "0"]
    assert done.out.endswith("nothing was changed: add --execute to do it\n")
    for to, after in (
        (["--to-offset", "1"], 1),
        (["--to-datetime", "2020-01-31T12:00:00"], 0),
        (["--to-datetime", "2120-01-31T12:00:00+01:00"], 3),
        (["--to-earliest"], 0),
    ):
        done = run("groups", "reset-offsets", group, "--topic", "orders:0", *to, "--execute", "--json")
        form = json.loads(done.out)
        assert form["executed"] is True
        assert [row["after"] for row in form["offsets"]] == [after]
        (found,) = json.loads(run("groups", "describe", group, "--json").out)
        assert found["offsets"][0]["start_offset"] == after


def test_topic_that_was_misspelt_is_suggested(group: str, run: Kshare) -> None:
    for words in (
        ["reset-offsets", group, "--to-earliest", "--topic", "ordrs"],
        ["delete-offsets", group, "--topic", "orders", "--topic", "ordrs"],
    ):
        assert_refused(run("groups", *words), 1, "there is no topic ordrs; did you mean 'orders'?")


def test_offsets_and_groups_are_deleted(group: str, run: Kshare) -> None:
    assert (
        run("groups", "delete-offsets", group, "--topic", "orders").out
        == "shippers: deleted offsets of orders\n"
    )
    done = run("groups", "delete-offsets", group, "--topic", "orders")
    assert (done.code, done.out) == (1, "")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in done.err
    done = run("groups", "delete", "nobody", group, "--json")
    assert done.code == 1
    assert json.loads(done.out) == {"deleted": [group]}
    assert done.err == "kshare: no group 'nobody'\n"
    assert run("groups", "list", "--json").out == "[]\n"


def test_nearest_name_of_an_unknown_group_is_suggested(group: str, run: Kshare) -> None:
    for command in ("describe", "delete"):
        assert_refused(run("groups", command, "shipers"), 1, "no group 'shipers'; did you mean 'shippers'?")


@pytest.mark.lengthy
def test_group_of_another_type_is_not_called_unknown(broker: Broker, run: Kshare) -> None:
    consumer = KafkaConsumer("orders", bootstrap_servers=broker.bootstrap, group_id="old")
    consumer.poll(500)
    consumer.close()
    done = run("groups", "describe", "old")
    assert (done.code, done.out) == (1, "")
    assert "group old: GROUP_ID_NOT_FOUND" in done.err


def test_settings_of_consumers_are_not_those_of_groups(broker: Broker, run: Kshare) -> None:
    for words in (["set", GROUP, "auto.offset.reset=earliest"], ["unset", GROUP, "auto.offset.reset"]):
        assert_refused(
            run("groups", "config", *words),
            1,
            "share groups have no setting auto.offset.reset: write share.auto.offset.reset; nothing was changed",
        )


def test_a_reset_without_topics_says_whether_there_is_the_group(broker: Broker, run: Kshare) -> None:
    """It said that it has read no topic, and to write `topics=…`."""
    done = run("groups", "reset-offsets", "nosuch", "--to-earliest")
    assert_refused(done, 1, "no group 'nosuch'; to set offsets before its first consumer joins, add --topic")


def test_dead_letter_topic_without_the_brokers_prefix_is_refused(broker: Broker, run: Kshare) -> None:
    name = "errors.deadletterqueue.topic.name"
    done = run("groups", "config", "set", GROUP, f"{name}=grave")
    assert_refused(done, 1, f"{name}=grave was not set: ")
    assert "begin with 'dlq.' (their errors.deadletterqueue.topic.name.prefix)" in done.err
    assert run("groups", "config", "set", GROUP, f"{name}=dlq.grave").code == 0
    assert run("groups", "config", "unset", GROUP, name).code == 0


def test_settings_are_shown_set_and_unset(broker: Broker, run: Kshare) -> None:
    lock = "share.record.lock.duration.ms"
    assert run("groups", "config", "set", GROUP, f"{lock}=20000").out == f"{GROUP}: {lock} is 20000\n"
    shown = {
        line.split()[0]: line.split()[1:] for line in run("groups", "config", "show", GROUP).out.splitlines()
    }
    assert shown[lock] == ["20000", "group", "1000", "to", "60000"]
    assert run("groups", "config", "unset", GROUP, lock).code == 0
    found = {load["name"]: load for load in json.loads(run("groups", "config", "show", GROUP, "--json").out)}
    assert (found[lock]["value"], found[lock]["source"]) == ("30000", "default")
    done = run("groups", "config", "set", GROUP, "share.no.such=1")
    assert (done.code, done.out) == (1, "")
    assert "INVALID_CONFIG" in done.err
    assert_refused(
        run("groups", "config", "set", GROUP, f"{lock}=20000", "share.no.such=1"), 1, "nothing was changed"
    )
    found = {load["name"]: load for load in json.loads(run("groups", "config", "show", GROUP, "--json").out)}
    assert found[lock]["value"] == "30000"


@pytest.mark.parametrize("words", [["groups"], ["groups", "config"]])
def test_help_is_shown_without_a_command(run: Kshare, words: list[str]) -> None:
    done = run(*words)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0] == f"Usage: kshare {' '.join(words)} [OPTIONS] COMMAND [ARGS]..."
    assert "As `kshare`" not in done.out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["reset-offsets", "g"], "give exactly one of --to-earliest"),
        (["reset-offsets", "g", "--to-latest", "--to-offset", "1"], "give exactly one of --to-earliest"),
        (["reset-offsets", "g", "--to-datetime", "soon"], "write it as 2026-01-31T12:00:00"),
        (["reset-offsets", "g", "--to-latest", "--topic", "t:x"], "partitions are numbers"),
        (["reset-offsets", "g", "--to-latest", "--topic", "t", "--topic", "t:0"], "given twice"),
        (["config", "set", "g", "a"], "should be name=value"),
        (["delete"], "GROUP"),
    ],
)
def test_wrong_usage_is_refused(broker: Broker, run: Kshare, words: list[str], reason: str) -> None:
    assert_refused(run("groups", *words), 2, reason)


def test_cluster_address_comes_from_a_properties_file(
    broker: Broker, run: Kshare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KSHARE_BOOTSTRAP_SERVER")
    file = tmp_path / "client.properties"
    file.write_text(
        f"# mine\nbootstrap.servers = {broker.bootstrap}\n\nsecurity.protocol:\\\n  PLAINTEXT\nclient.id me\n"
    )
    assert run("groups", "list", "--command-config", str(file)).code == 0
    file.write_text("nonsense\n")
    assert "line 1: expected name=value" in run("groups", "list", "--command-config", str(file)).err
    file.write_bytes(b"\x7fELF\xff")
    assert_refused(
        run("groups", "list", "--command-config", str(file)),
        1,
        f"{file} is not a properties file: not valid UTF-8",
    )
    file.write_text("group.id=orders\n")
    done = run("groups", "list", "-b", broker.bootstrap, "--command-config", str(file))
    assert "group.id is an option of consumers" in done.err
    assert "no cluster given: use --bootstrap-server" in run("groups", "list").err


def test_unreachable_cluster_is_an_error(run: Kshare, free_tcp_port: int) -> None:
    assert_refused(run("groups", "list", "-b", f"127.0.0.1:{free_tcp_port}"), 1, "refused")


@pytest.mark.lengthy
def test_output_fits_a_small_terminal(group: str) -> None:
    for words in (["describe"], ["config", "show", group]):
        done = on_terminal("groups", *words)
        assert done.code == 0
        lines = without_colours(done.out).splitlines()
        assert max(map(len, lines)) <= 80
        assert lines[0].split()[0] in ("GROUP", "SETTING")

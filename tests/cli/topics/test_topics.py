"""`kshare topics` with an embedded cluster."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import pytest

from kshare.broker.settings import Resource
from kshare.testing import Broker
from tests.cli.running import ROOT, Done, Kshare, assert_refused
from tests.helpers.documents import blocks


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    with Broker(nodes=3) as broker:
        monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", broker.bootstrap)
        yield broker


def rows(done: Done) -> list[list[str]]:
    assert (done.code, done.err) == (0, "")
    return [line.split() for line in done.out.splitlines()]


def test_topics_are_created_listed_and_deleted(broker: Broker, run: Kshare) -> None:
    assert run("topics", "list") == Done(0, "there are no topics\n")
    done = run("topics", "create", "orders", "--partitions", "4", "--replication-factor", "3")
    assert done == Done(0, "created orders\n")
    assert run("topics", "create", "returns") == Done(0, "created returns\n")
    assert rows(run("topics", "list")) == [
        ["TOPIC", "PARTITIONS", "REPLICAS"],
        ["orders", "4", "3"],
        ["returns", "1", "1"],
    ]
    assert run("topics", "delete", "orders", "returns") == Done(0, "deleted orders, returns\n")
    assert run("topics", "list", "--json") == Done(0, "[]\n")


def test_topics_are_created_with_settings(broker: Broker, run: Kshare) -> None:
    words = ["--config", "retention.ms=3600000", "--config", "cleanup.policy=compact,delete"]
    assert run("topics", "create", "orders", *words).code == 0
    chosen = broker.call(lambda: dict(broker.state.configs.of(Resource.TOPIC, "orders")))
    assert chosen == {"retention.ms": "3600000", "cleanup.policy": "compact,delete"}


def test_json_output(broker: Broker, run: Kshare) -> None:
    assert json.loads(run("topics", "create", "orders", "-p", "2", "--json").out) == {"created": ["orders"]}
    (found,) = json.loads(run("topics", "list", "--json").out)
    assert len(found.pop("topic_id")) == 22
    assert found == {"topic": "orders", "partitions": 2, "replication_factor": 1, "is_internal": False}
    assert json.loads(run("topics", "delete", "orders", "--json").out) == {"deleted": ["orders"]}


def test_internal_topics_are_listed_on_request(broker: Broker, run: Kshare) -> None:
    broker.create_topic("__share_group_state", 2)
    assert run("topics", "list").out == "there are no topics\n"
    assert ["__share_group_state", "2", "3"] in rows(run("topics", "list", "--internal"))


def test_failure_for_one_topic_does_not_stop_the_others(broker: Broker, run: Kshare) -> None:
    assert run("topics", "create", "orders").code == 0
    done = run("topics", "create", "orders", "returns")
    assert (done.code, done.out) == (1, "created returns\n")
    assert "creating topic orders: TOPIC_ALREADY_EXISTS" in done.err
    done = run("topics", "delete", "nope", "orders", "--json")
    assert (done.code, json.loads(done.out)) == (1, {"deleted": ["orders"]})
    assert done.err == "kshare: there is no topic nope\n"


def test_topic_that_was_misspelt_is_not_deleted(broker: Broker, run: Kshare) -> None:
    broker.create_topic("orders")
    assert_refused(run("topics", "delete", "ordrs"), 1, "there is no topic ordrs; did you mean 'orders'?")


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["create"], 2, "Missing argument 'TOPIC'"),
        (["delete"], 2, "Missing argument 'TOPIC'"),
        (["create", "orders", "--partitions", "0"], 2, "--partitions"),
        (["create", "orders", "--replication-factor", "0"], 2, "--replication-factor"),
        (["create", "orders", "--config", "retention.ms"], 2, "write NAME=VALUE"),
        (["create", "orders", "--config", "a=1", "--config", "a=2"], 2, "--config a is given twice"),
        (["create", "orders", "--config", "retention.mz=1"], 1, "retention.mz"),
        (["create", "orders", "--replication-factor", "9"], 1, "INVALID_REPLICATION_FACTOR"),
        (["create", "a b"], 1, "INVALID_TOPIC_EXCEPTION"),
    ],
)
def test_errors_are_reported_on_one_line(
    broker: Broker, run: Kshare, words: list[str], code: int, reason: str
) -> None:
    done = run("topics", *words)
    assert_refused(done, code, reason)


def test_help_is_shown_without_a_command(run: Kshare) -> None:
    done = run("topics")
    assert done.code == 0
    assert all(command in done.out for command in ("list", "create", "delete"))


def test_transcript_in_the_documentation_matches(broker: Broker, run: Kshare) -> None:
    (text,) = [text for _, text in blocks(ROOT / "docs" / "cli.md") if "$ kshare topics create" in text]
    export, *lines = text.splitlines()
    assert export.startswith("$ export KSHARE_BOOTSTRAP_SERVER=")
    again = []
    for line in lines:
        if line.startswith("$ kshare "):
            again += [line, *run(*shlex.split(line)[2:]).out.splitlines()]
    assert again == lines


def test_internal_topics_are_not_deleted(broker: Broker, run: Kshare) -> None:
    broker.create_topic("__share_group_state", 2)
    done = run("topics", "delete", "__share_group_state")
    assert done.code == 1
    assert "topic __share_group_state is internal to Kafka" in done.err
    assert "__share_group_state" in run("topics", "list", "--internal").out


def test_partitions_beyond_the_limit_per_request_are_refused(broker: Broker, run: Kshare) -> None:
    done = run("topics", "create", "orders", "--partitions", "10001")
    assert done.code == 1
    assert "Excessively large number of partitions per request." in done.err
    assert run("topics", "list").out == "there are no topics\n"

"""`kshare dlq` with an embedded cluster: dead letters as a 4.4 broker writes them, and as other programs do."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kshare import sync
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ProduceRequest
from kshare.protocol.record_builder import BatchBuilder
from kshare.testing import Broker
from tests.cli.dlq.letters import GRAVE, GROUP, SETTINGS, bury, context, letter, letters_of, redriven, values
from tests.cli.running import DEADLINE, KSHARE, ROOT, Kshare, assert_refused, without_colours
from tests.cli.terminals import on_terminal
from tests.helpers.lost_records import lose
from tests.helpers.reading_groups import make_reader

# --- list and show


@pytest.mark.lengthy
def test_topics_with_dead_letters_are_listed(broker: Broker, run: Kshare) -> None:
    bury(broker, 3)
    broker.create_topic("dlq.empty", 1, {f"{SETTINGS}group.enable": "true"})
    broker.produce("dlq.empty", [b"not a dead letter"])
    done = run("dlq", "list")
    assert [line.split() for line in done.out.splitlines()] == [
        ["TOPIC", "PARTITIONS", "LETTERS", "OF", "GROUPS"],
        ["dlq.empty", "1", "0", "-"],
        [GRAVE, "2", "3", "shippers"],
    ]
    (_, found) = json.loads(run("dlq", "list", "--json").out)
    counts = {"partitions": 2, "letters": 3, "settled": 0}
    assert found == {"topic": GRAVE, **counts, "groups": ["shippers"], "problems": []}


@pytest.mark.lengthy
def test_groups_that_write_their_dead_letters_themselves_are_listed(broker: Broker, run: Kshare) -> None:
    """As kshare's workers do: no config names the topic. Names of groups that don't exist may be anybody's."""
    letter(broker, b"x", ("orders", 0, 9))
    letter(broker, b"y", ("orders", 0, 9), group="nobody")
    assert run("dlq", "list").out.splitlines()[1].split() == [GRAVE, "2", "2", GROUP]


@pytest.mark.lengthy
def test_redriven_letters_are_counted_separately_and_marked(broker: Broker, run: Kshare) -> None:
    bury(broker, 4)
    redriven(run, "--letter", "1:0", "--letter", "1:2")
    heads, row = (line.split() for line in run("dlq", "list").out.splitlines())
    assert heads == ["TOPIC", "PARTITIONS", "LETTERS", "SETTLED", "OF", "GROUPS"]
    assert row == [GRAVE, "2", "2", "2", "shippers"]
    assert [letter["settled"] for letter in letters_of(run)] == [True, False, True, False]
    heads, first, second, *_ = (line.split() for line in run("dlq", "show", GRAVE).out.splitlines())
    assert heads[-2:] == ["SETTLED", "REASON"]
    assert ("yes" in first, "yes" in second) == (True, False)
    explained = run("dlq", "show", GRAVE, "--letter", "1:2", "--explain").out
    assert f"settled by group kshare-dlq-{GRAVE}" in explained
    redriven(run)
    (found,) = json.loads(run("dlq", "list", "--json").out)
    assert (found["letters"], found["settled"]) == (0, 4)
    (other,) = json.loads(run("dlq", "list", "--group", "another", "--json").out)
    assert (other["letters"], other["settled"]) == (4, 0)


@pytest.mark.lengthy
def test_letters_that_are_redriven_one_by_one_are_not_given_up(broker: Broker, run: Kshare) -> None:
    """Each run delivers the others, too: with Kafka's usual limit of five deliveries, the sixth would be archived."""
    bury(broker, 6)
    letters = [f"{letter['partition']}:{letter['offset']}" for letter in letters_of(run)]
    for place in letters:
        assert redriven(run, "--letter", place)["redriven"] == 1, place


def test_no_dead_letter_topics(kshare_broker: Broker, run: Kshare) -> None:
    assert run("dlq", "list", "-b", kshare_broker.bootstrap).out == (
        "no dead-letter topics are marked as such\n"
        "kshare dlq show TOPIC shows those of one that isn't; before Kafka 4.4, topics can't be marked\n"
    )


@pytest.mark.lengthy
def test_letters_show_their_source(broker: Broker, run: Kshare) -> None:
    bury(broker, 2)
    found = letters_of(run)
    assert [(letter["partition"], letter["offset"]) for letter in found] == [(1, 0), (1, 1)]
    assert found[1]["source"] == {"topic": "orders", "partition": 1, "offset": 1}
    assert (found[1]["group"], found[1]["deliveries"]) == ("shippers", 1)
    assert found[1]["reason"] == "Offset rejected by client."
    assert (found[1]["key"], found[1]["value"]) == (None, None)
    heads, row, _ = run("dlq", "show", GRAVE).out.splitlines()
    assert heads.split() == ["LETTER", "WRITTEN", "FROM", "GROUP", "TIMES", "REASON"]
    assert row.split()[0] == "1:0"
    assert row.endswith("orders[1]@0  shippers      1  Offset rejected by client.")


def test_headers_are_explained(broker: Broker, run: Kshare) -> None:
    letter(broker, b"v\x00", ("orders", 1, 7), delivery_count="3", exception="KeyError")
    broker.produce(GRAVE, [b"plain"], headers=[("own", b"header")])
    out = run("dlq", "show", GRAVE, "--explain").out
    assert "  delivery.count  3         how many times it was delivered to the group" in out
    assert "  exception       KeyError  added by the program that wrote the dead letter" in out
    assert "  value  v\\x00" in out
    assert "not a dead letter of Kafka's" in out
    assert "  own: header  a header of the record" in out


def test_timestamp_out_of_range_is_shown_as_a_dash(broker: Broker, run: Kshare, tmp_path: Path) -> None:
    lines = tmp_path / "letters"
    lines.write_text('{"value": "v", "timestamp": 9000000000000000000}\n{"value": "v", "timestamp": 1500}\n')
    assert run("produce", "-t", GRAVE, "-p", "0", "--input", "json", str(lines)).code == 0
    _, first, second = run("dlq", "show", GRAVE).out.splitlines()
    assert first.split()[:2] == ["0:0", "-"]
    assert second.split()[:3] == ["0:1", "1970-01-01", "00:00:01"]


@pytest.mark.lengthy
def test_letters_are_filtered(broker: Broker, run: Kshare) -> None:
    letter(
        broker,
        b"0",
        ("orders", 1, 7),
        group="a",
        message="Offset rejected by client.",
    )
    letter(broker, b"1", ("returns", 0, 8), group="b", message="Too often.")
    letter(broker, b"2", ("orders", 0, 9), group="b", message="Too often.")

    def chosen(*words: str) -> list[str]:
        return [letter["value"] for letter in letters_of(run, *words)]

    assert chosen() == ["0", "1", "2"]
    assert chosen("--source", "orders") == ["0", "2"]
    assert chosen("--source", "orders", "--from-group", "b") == ["2"]
    assert chosen("--source", "orders", "--source", "returns", "--reason", "TOO OFTEN") == ["1", "2"]
    assert chosen("--letter", "0:0", "--letter", "0:2") == ["0", "2"]
    assert chosen("--since", "2120-01-31T12:00:00") == []
    assert chosen("--until", "2120-01-31T12:00:00+01:00", "--max", "2") == ["0", "1"]
    assert run("dlq", "show", GRAVE, "--source", "none").out == "no matching dead letters\n"


# --- redrive


@pytest.mark.lengthy
def test_letters_without_copy_are_redriven_from_the_original_records(broker: Broker, run: Kshare) -> None:
    bury(broker, 3)
    found = redriven(run)
    assert (found["redriven"], found["targets"], found["left"]) == (3, {"orders": 3}, [])
    assert found["is_complete"] is True
    before, after = broker.records("orders")[:3], broker.records("orders")[3:]
    for old, new in zip(before, after, strict=True):
        assert (new.key, new.value, new.timestamp) == (old.key, old.value, old.timestamp)
        assert list(new.headers) == [("own", b"header")]
    cluster = broker.state.cluster
    assert (
        broker.call(lambda: cluster.partition("orders", 0).log.end_offset) == 0
    )  # the other partition had them
    assert redriven(run)["redriven"] == 0  # the group has settled them


@pytest.mark.lengthy
def test_copies_are_redriven_when_the_original_record_is_gone(broker: Broker, run: Kshare) -> None:
    bury(broker, 2, copies=True)
    broker.delete_topic("orders")
    broker.create_topic("orders", 1)
    done = run("dlq", "redrive", GRAVE)
    assert done.code == 1, "the group hasn't read the new topic"
    assert "group shippers doesn't read topic orders" in done.out
    done = run("dlq", "redrive", GRAVE, "--to", "orders")
    assert (done.code, done.err) == (0, "")
    assert done.out == "2 dead letters redriven: 2 to orders\n"
    assert values(broker, "orders") == [b"value 0", b"value 1"]
    assert all(not list(record.headers) for record in broker.records("orders"))


@pytest.mark.lengthy
def test_letters_without_copy_and_original_are_left(broker: Broker, run: Kshare) -> None:
    bury(broker, 1)
    broker.delete_topic("orders")
    broker.create_topic("orders", 2)
    make_reader(broker, "shippers", "orders")
    letter(broker, b"x")
    done = run("dlq", "redrive", GRAVE)
    assert done.code == 1
    assert "1:0 not redriven: it has no copy of the record, and orders[1]@0 is beyond the end" in done.out
    lose(broker, "orders", 1, 1)
    done = run("dlq", "redrive", GRAVE)
    assert "1:0 not redriven: it has no copy of the record, and orders[1]@0 no longer exists" in done.out
    assert (
        "0:0 not redriven: it has no headers that say where its record is: name a topic with --to" in done.out
    )
    assert done.err == "kshare: 2 dead letters couldn't be redriven\n"


@pytest.mark.lengthy
def test_redrive_to_another_topic(broker: Broker, run: Kshare) -> None:
    broker.create_topic("second", 4)
    letter(broker, b"x")
    letter(broker, b"y", ("gone", 7, 1))
    assert redriven(run, "--to", "second")["targets"] == {"second": 2}
    assert sorted(map(bytes, filter(None, values(broker, "second")))) == [b"x", b"y"]
    assert all(not list(record.headers) for record in broker.records("second"))
    done = run("dlq", "redrive", GRAVE, "--to", GRAVE)
    assert (done.code, done.out) == (1, "")
    assert "is the dead-letter topic itself" in done.err
    for words in ([], ["--dry-run"]):
        done = run("dlq", "redrive", GRAVE, "--to", "nowhere", *words)
        assert_refused(done, 1, "there is no topic nowhere\n")


@pytest.mark.parametrize("words", [["show"], ["drop", "--all"], ["redrive"], ["redrive", "--dry-run"]])
def test_topic_that_was_misspelt_is_suggested(broker: Broker, run: Kshare, words: list[str]) -> None:
    command, *options = words
    done = run("dlq", command, GRAVE[:-1], *options)
    assert_refused(done, 1, f"there is no topic {GRAVE[:-1]}; did you mean '{GRAVE}'?")


@pytest.mark.lengthy
def test_unmatched_letters_are_released_and_redriven_later(broker: Broker, run: Kshare) -> None:
    for number in range(6):
        letter(broker, b"%d" % number, ("orders", 0, 9), group="ab"[number % 2])
    found = redriven(run, "--from-group", "a")
    assert (found["redriven"], found["passed_over"], found["is_complete"]) == (3, 3, True)
    assert values(broker, "orders") == [b"0", b"2", b"4"]
    assert redriven(run, "--max", "1")["redriven"] == 1
    assert redriven(run)["redriven"] == 2
    assert values(broker, "orders") == [b"0", b"2", b"4", b"1", b"3", b"5"]


@pytest.mark.lengthy
def test_unmatched_letters_can_be_settled(broker: Broker, run: Kshare) -> None:
    for number in range(4):
        letter(broker, b"%d" % number, ("orders", 0, 9), group="ab"[number % 2])
    found = redriven(run, "--from-group", "a", "--settle-others", "--group", "another")
    assert (found["group"], found["redriven"], found["passed_over"]) == ("another", 2, 2)
    assert redriven(run, "--group", "another")["redriven"] == 0
    assert redriven(run)["redriven"] == 4  # another group has its own progress


@pytest.mark.lengthy
@pytest.mark.parametrize("limit", [5, 6])
def test_skipped_letters_are_moved_before_they_would_be_archived(
    broker: Broker, run: Kshare, limit: int
) -> None:
    broker.set_group_config(f"kshare-dlq-{GRAVE}", {"share.delivery.count.limit": str(limit)})
    for number in range(5):
        letter(broker, b"%d" % number, ("orders", 0, number), group="mine")
    moved = 0
    for _ in range(8):
        done = redriven(run, "--source", "other")
        assert (done["redriven"], done["passed_over"]) == (0, 5)
        moved += done["moved"]
    assert moved >= 5
    found = [letter for letter in letters_of(run) if not letter["settled"]]
    assert sorted(letter["value"] for letter in found) == ["0", "1", "2", "3", "4"]
    assert not any(letter["given_up"] for letter in found)
    assert all("moved.from" in letter["context"] for letter in found)
    assert redriven(run)["redriven"] == 5
    assert sorted(values(broker, "orders")) == [b"0", b"1", b"2", b"3", b"4"]  # type: ignore[type-var]


@pytest.mark.lengthy
@pytest.mark.parametrize("action", ["redrive", "drop"])
def test_runs_that_choose_one_never_give_up_the_others(broker: Broker, run: Kshare, action: str) -> None:
    """A run that has what it wants also sees the others that it must move."""
    broker.set_group_config(f"kshare-dlq-{GRAVE}", {"share.delivery.count.limit": "5"})
    for number in range(6):
        letter(broker, b"%d" % number, ("orders", 0, number))
    for number in range(6):
        (place,) = [
            f"{letter['partition']}:{letter['offset']}"
            for letter in letters_of(run)
            if not letter["settled"] and letter["value"] == str(number)
        ]
        done = run("dlq", action, GRAVE, "--letter", place, "--json")
        assert (done.code, done.err) == (0, "")
        assert not any(letter["given_up"] for letter in letters_of(run))
    assert all(letter["settled"] for letter in letters_of(run))
    assert values(broker, "orders") == (
        [b"%d" % number for number in range(6)] if action == "redrive" else []
    )


@pytest.mark.lengthy
def test_letters_that_cannot_be_moved_are_given_up(broker: Broker, run: Kshare) -> None:
    broker.set_group_config(f"kshare-dlq-{GRAVE}", {"share.delivery.count.limit": "5"})
    letter(broker, b"x", ("orders", 0, 9))
    letter(broker, b"y", ("orders", 0, 9), group="mine")
    broker.faults.add(ProduceRequest, times=None, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    runs = [run("dlq", "redrive", GRAVE, "--source", "other") for _ in range(5)]
    assert [done.code for done in runs] == [0, 0, 1, 1, 1]
    assert "2 dead letters couldn't be written to topic dlq.orders again" in runs[2].err
    broker.faults.stop()
    assert [letter["given_up"] for letter in letters_of(run)] == [True, True]
    assert "given up" in run("dlq", "show", GRAVE).out
    assert "given up by group" in run("dlq", "show", GRAVE, "--explain").out
    done = run("dlq", "redrive", GRAVE, "--letter", "0:0")
    assert (done.code, done.out) == (1, "")
    assert "has given up dead letter 0:0 of topic dlq.orders" in done.err
    assert redriven(run, "--group", "another")["redriven"] == 2


@pytest.mark.lengthy
def test_redrives_that_fail_again_and_again_give_up_nothing(broker: Broker, run: Kshare) -> None:
    broker.set_group_config(f"kshare-dlq-{GRAVE}", {"share.delivery.count.limit": "5"})
    for number in range(3):
        letter(broker, b"%d" % number, ("orders", 0, number))
    broker.set_topic_config("orders", {"max.message.bytes": "50"})
    runs = [run("dlq", "redrive", GRAVE) for _ in range(7)]
    assert {done.code for done in runs} == {1}, runs
    broker.set_topic_config("orders", {"max.message.bytes": "100000"})
    assert not any(letter["given_up"] for letter in letters_of(run))
    assert redriven(run)["redriven"] == 3
    assert sorted(values(broker, "orders")) == [b"0", b"1", b"2"]  # type: ignore[type-var]


def test_few_deliveries_are_refused(broker: Broker, run: Kshare) -> None:
    broker.set_group_config(f"kshare-dlq-{GRAVE}", {"share.delivery.count.limit": "4"})
    letter(broker, b"x", ("orders", 0, 9))
    done = run("dlq", "redrive", GRAVE)
    assert_refused(done, 1, f"kshare groups config set kshare-dlq-{GRAVE} share.delivery.count.limit=5")


@pytest.mark.lengthy
def test_settings_of_a_group_in_use_are_not_changed(broker: Broker, run: Kshare) -> None:
    letter(broker, b"x", ("orders", 0, 9))
    with sync.ShareConsumer(broker.bootstrap, group="shippers", topics=["orders"]):
        deadline = time.monotonic() + DEADLINE
        while "shippers" not in run("groups", "list").out:
            assert time.monotonic() < deadline
    said = "kshare groups config set shippers share.auto.offset.reset=earliest"
    assert_refused(run("dlq", "redrive", GRAVE, "--group", "shippers"), 1, said)
    assert '"earliest"' not in run("groups", "config", "show", "shippers", "--json").out
    broker.set_group_config("shippers", {"share.auto.offset.reset": "earliest"})
    assert redriven(run, "--group", "shippers")["redriven"] == 1


@pytest.mark.lengthy
def test_settled_letters_are_refused(broker: Broker, run: Kshare) -> None:
    letter(broker, b"x", ("orders", 0, 9))
    assert redriven(run)["redriven"] == 1
    assert_refused(run("dlq", "redrive", GRAVE, "--letter", "0:0"), 1, "has settled these dead letters")


@pytest.mark.lengthy
def test_records_of_other_topics_are_not_dropped(broker: Broker, run: Kshare) -> None:
    broker.produce("orders", [b"a", b"b"])
    assert json.loads(run("dlq", "drop", "orders", "--all", "--dry-run", "--json").out) == []
    assert "0 dead letters dropped" in run("dlq", "drop", "orders", "--all").out
    assert "1 dead letter dropped" in run("dlq", "drop", "orders", "--letter", "0:1").out


@pytest.mark.lengthy
def test_others_are_settled_when_all_chosen_are_redriven(broker: Broker, run: Kshare) -> None:
    for number in range(700):
        letter(broker, b"%d" % number, ("orders", 0, number), at=number % 2)
    found = redriven(run, "--letter", "0:0", "--settle-others")
    assert (found["redriven"], found["passed_over"]) == (1, 699)


@pytest.mark.lengthy
def test_dry_run_shows_what_would_be_done(broker: Broker, run: Kshare) -> None:
    for number in range(3):
        letter(broker, b"%d" % number, ("orders", 0, 9))
    letter(broker, None, at=1)
    assert redriven(run, "--letter", "0:1")["redriven"] == 1
    out = run("dlq", "redrive", GRAVE, "--dry-run").out
    assert [line.split()[:3] for line in out.splitlines()[1:4]] == [
        ["0:0", "orders[0]@9", "orders"],
        ["0:2", "orders[0]@9", "orders"],
        ["1:0", "-", "not"],
    ]
    assert "2 dead letters would be redriven: 2 to orders; nothing was changed\n" in out
    (found,) = json.loads(run("dlq", "redrive", GRAVE, "--dry-run", "--max", "1", "--json").out)
    assert (found["to"], found["value"], found["problem"]) == ("orders", "0", None)
    assert values(broker, "orders") == [b"1"]


@pytest.mark.lengthy
def test_refused_write_settles_nothing(broker: Broker, run: Kshare) -> None:
    letter(broker, b"x", ("orders", 0, 9))
    broker.faults.add(ProduceRequest, times=2, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    done = run("dlq", "redrive", GRAVE)
    assert (done.code, done.err) == (1, "kshare: 1 dead letter couldn't be redriven\n")
    assert "0:0 not redriven: nothing can be written to topic orders: " in done.out
    done = run("dlq", "redrive", GRAVE, "--to", "orders")
    assert (done.code, "kshare: writing to orders[0]: TOPIC_AUTHORIZATION_FAILED" in done.err) == (1, True)
    assert redriven(run)["redriven"] == 1


@pytest.mark.lengthy
def test_letters_written_meanwhile_are_left_for_the_next_redrive(broker: Broker, run: Kshare) -> None:
    """Otherwise a record that fails again at once would be redriven endlessly."""
    letter(broker, b"x", ("orders", 0, 9))
    broker.faults.add(ProduceRequest, do=lambda: write_another(broker))
    assert redriven(run)["redriven"] == 1
    assert redriven(run)["redriven"] == 1


def write_another(broker: Broker) -> None:
    """Called in the broker's thread."""
    now, grave = broker.state.clock.now(), broker.state.cluster.partition(GRAVE, 0)
    batch = BatchBuilder()
    batch.append(b"y", timestamp=now, headers=context(("orders", 0, 9), {"group": GROUP}))
    grave.log.append(batch.build(), now=now, leader_epoch=grave.leader_epoch)


@pytest.fixture
def slow_redrive(broker: Broker) -> Iterator[subprocess.Popen[bytes]]:
    """A running redrive of 60 dead letters, of which some were written, and confirmed: it is writing more."""
    soon = {"share.session.timeout.ms": "2000", "share.heartbeat.interval.ms": "500"}
    broker.set_group_config(f"kshare-dlq-{GRAVE}", soon)
    for number in range(60):
        letter(broker, b"%d" % number, ("orders", 0, 999))
    is_writing_more = threading.Event()
    broker.faults.add(ProduceRequest, skip=2, times=None, swallow=True, do=is_writing_more.set)
    process = subprocess.Popen(
        [*KSHARE, "dlq", "redrive", GRAVE, "--rate", "20"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert is_writing_more.wait(DEADLINE)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.lengthy
def test_kill_during_redrive_loses_nothing(
    broker: Broker, run: Kshare, slow_redrive: subprocess.Popen[bytes]
) -> None:
    slow_redrive.kill()
    slow_redrive.wait(DEADLINE)
    assert 0 < len(broker.records("orders")) < 60
    broker.faults.stop()
    redriven(run)
    found = values(broker, "orders")
    assert set(found) == {b"%d" % number for number in range(60)}
    assert len(found) <= 60 + 20  # records of the last second may be written twice


@pytest.mark.lengthy
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_settles_what_was_written(
    broker: Broker, run: Kshare, slow_redrive: subprocess.Popen[bytes], number: int
) -> None:
    slow_redrive.send_signal(number)
    out, err = slow_redrive.communicate(timeout=DEADLINE)
    assert (slow_redrive.returncode, out) == (130, b"")
    assert err.count(b"\n") == 1
    assert b"a producer was cancelled instead of closed; not confirmed, and maybe not written: " in err
    assert 0 < len(broker.records("orders")) < 60
    broker.faults.stop()
    redriven(run)
    assert len(broker.records("orders")) == 60  # no duplicates: confirmed records were settled


# --- drop


@pytest.mark.lengthy
def test_letters_are_dropped(broker: Broker, run: Kshare) -> None:
    bury(broker, 3)
    before = len(broker.records("orders"))
    assert len(json.loads(run("dlq", "drop", GRAVE, "--all", "--dry-run", "--json").out)) == 3
    done = run("dlq", "drop", GRAVE, "--letter", "1:1")
    assert (done.code, done.out) == (
        0,
        f"1 dead letter dropped\n2 dead letters skipped: each used one of its deliveries to group kshare-dlq-{GRAVE}\n",
    )
    assert [letter["settled"] for letter in letters_of(run)] == [False, True, False]
    assert redriven(run)["redriven"] == 2
    assert run("dlq", "drop", GRAVE, "--all").out == "0 dead letters dropped\n"
    assert run("dlq", "drop", GRAVE, "--all", "--dry-run").out == "nothing to drop\n"
    assert len(broker.records("orders")) == before + 2


@pytest.mark.lengthy
def test_letters_are_dropped_by_reason(broker: Broker, run: Kshare) -> None:
    letter(broker, b"a", ("orders", 0, 0), message="Broken.")
    letter(broker, b"b", ("orders", 0, 1), message="Too often.")
    letter(broker, b"c", ("orders", 0, 2), message="broken, too")
    done = run("dlq", "drop", GRAVE, "--reason", "broken", "--max", "1", "--json")
    assert json.loads(done.out)["dropped"] == 1
    assert json.loads(run("dlq", "drop", GRAVE, "--reason", "broken", "--json").out)["dropped"] == 1
    assert [letter["settled"] for letter in letters_of(run)] == [True, False, True]


@pytest.mark.parametrize("words", [[], ["--all", "--reason", "x"]])
def test_drop_needs_filters_or_all(broker: Broker, run: Kshare, words: list[str]) -> None:
    assert_refused(run("dlq", "drop", GRAVE, *words), 2, "--all")


# --- usage


@pytest.mark.lengthy
def test_nonexistent_letter_is_an_error(broker: Broker, run: Kshare) -> None:
    letter(broker, b"copy", ("orders", 0, 7))
    for words in ([], ["--dry-run"]):
        done = run("dlq", "redrive", GRAVE, "--letter", "0:0", "--letter", "9:9", *words)
        assert_refused(done, 1, f"topic {GRAVE} has no dead letter 9:9")
    assert redriven(run, "--letter", "0:0")["redriven"] == 1


@pytest.mark.lengthy
def test_records_of_an_ordinary_topic_are_not_letters(broker: Broker, run: Kshare) -> None:
    for topic in ("plain", "elsewhere"):
        broker.create_topic(topic)
    broker.produce("plain", [b"a", b"b"])
    said = "none of these 2 records is a dead letter"
    for words in ([], ["--explain"]):
        assert run("dlq", "show", "plain", *words).out == f"{said}\n"
    assert run("dlq", "show", "plain", "--json").out == "[]\n"
    for words in ([], ["--dry-run"]):
        assert_refused(run("dlq", "redrive", "plain", *words), 1, said)
    assert run("dlq", "redrive", "plain", "--to", "elsewhere", "--dry-run").code == 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["show"], "TOPIC"),
        (["show", GRAVE, "--letter", "17"], "write PARTITION:OFFSET"),
        (["show", GRAVE, "--letter", "-1:0"], "write PARTITION:OFFSET"),
        (["show", GRAVE, "--letter", f"0:{10**20}"], "write PARTITION:OFFSET"),
        (["redrive", GRAVE, "--since", "soon"], "write it as 2026-01-31T12:00:00"),
        (["redrive", GRAVE, "--rate", "0"], "--rate"),
        (["redrive", GRAVE, "--to", ""], "'--to': must not be empty"),
        (["drop", GRAVE, "--reason", ""], "'--reason': must not be empty"),
        (["drop", GRAVE, "--reason", "x", "--reason", " "], "'--reason': must not be empty"),
        (["drop", GRAVE, "--source", ""], "'--source': must not be empty"),
        (["drop", GRAVE, "--from-group", ""], "'--from-group': must not be empty"),
        (["drop", GRAVE, "--all", "--group", ""], "must not be empty"),
        (["list", "--group", ""], "must not be empty"),
    ],
)
def test_wrong_usage_is_refused(broker: Broker, run: Kshare, words: list[str], reason: str) -> None:
    assert_refused(run("dlq", *words), 2, reason)


@pytest.mark.lengthy
def test_output_fits_a_small_terminal(broker: Broker) -> None:
    for number in range(3):
        letter(broker, b"%d" % number, ("orders", 0, 9), message="Too often. " * 9)
    done = on_terminal("dlq", "show", GRAVE)
    assert max(map(len, without_colours(done.out).splitlines())) <= 80
    done = on_terminal("dlq", "redrive", GRAVE)
    assert done.code == 0
    assert "redriven 3, skipped 0, not redriven 0" in done.out
    assert done.out.endswith("3 dead letters redriven: 3 to orders\n")

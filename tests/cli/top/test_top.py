"""`kshare top` with an embedded cluster: once, as JSON, and on a terminal with typed keys."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kshare import sync
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import FetchRequest, ListGroupsRequest, ShareGroupDescribeRequest
from kshare.testing import Broker
from tests.cli.running import DEADLINE, Kshare, Piped, assert_refused
from tests.cli.terminals import Terminal

GROUP = "shippers"
_HOME = b"\x1b[H"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def broker(kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Broker:
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", kshare_broker.bootstrap)
    kshare_broker.create_topic("orders", 2)
    kshare_broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
    kshare_broker.produce("orders", [b"x"] * 10)
    return kshare_broker


@pytest.fixture
def group(broker: Broker) -> Iterator[str]:
    """A group whose member has accepted four of ten records, released one, and holds the others."""
    with sync.ShareConsumer(
        broker.bootstrap, group=GROUP, topics=["orders"], acknowledgement="explicit", client_id="truck"
    ) as consumer:
        settled = 0
        for batch in consumer.batches():
            for record in batch:
                if record.offset in (0, 1, 2, 4):
                    record.accept()
                elif record.offset == 6 and record.delivery_count == 1:
                    record.release()
                settled += 1
            if settled >= 10:
                break
        consumer.commit()
        yield GROUP


def top(run: Kshare, *words: str) -> Any:
    done = run("top", "--once", "--interval", "0.1", "--json", *words)
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


@pytest.mark.lengthy
def test_figures_of_a_group(group: str, run: Kshare) -> None:
    found = top(run)
    (row,) = found["groups"]
    assert (row["group"], row["state"], row["members"], row["partitions"]) == (group, "Stable", 1, 2)
    assert row["lag"] == 6
    first = found["partitions"][0]
    assert (first["topic"], first["partition"], first["start"], first["lag"]) == ("orders", 0, 3, 6)
    assert (first["redelivered"], first["most_deliveries"]) == (1, 1)
    assert first["settled_per_second"] == 0
    assert 0 <= first["oldest_seconds"] < DEADLINE
    (member,) = found["members"]
    assert (member["client"], member["partitions"]) == ("truck", 2)


@pytest.mark.lengthy
def test_group_filter(group: str, broker: Broker, run: Kshare) -> None:
    assert [row["group"] for row in top(run, "--group", group)["groups"]] == [group]
    done = run("top", "--once", "--json", "--interval", "0.1", "--group", "nobody")
    assert (done.code, done.err) == (1, "kshare: no group 'nobody'\n")
    assert json.loads(done.out) | {"time": 0} == {
        "time": 0,
        "groups": [],
        "partitions": [],
        "members": [],
    }


@pytest.mark.lengthy
def test_nonexistent_group_is_noted_with_a_suggestion(group: str, run: Kshare) -> None:
    done = run("top", "--once", "--interval", "0.1", "--group", "shipers", "--group", "nobody")
    text = f"no group 'shipers'; did you mean '{group}'?; no group 'nobody'"
    assert (done.code, done.err) == (1, f"kshare: {text}\n")
    assert f"! no group 'shipers'; did you mean '{group}'?\n! no group 'nobody'\n" in done.out
    assert "no visible share groups" not in done.out


@pytest.mark.lengthy
def test_figures_from_the_state_topic_are_unknown_without_permission(
    group: str, broker: Broker, run: Kshare
) -> None:
    def refuse(response: Any) -> None:
        for topic in response.responses:
            for row in topic.partitions:
                row.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    broker.faults.add(FetchRequest, times=None, change=refuse)
    first = top(run)["partitions"][0]
    assert (first["lag"], first["redelivered"], first["oldest_seconds"]) == (6, None, None)


@pytest.mark.lengthy
def test_group_without_permission_does_not_hide_the_others(group: str, broker: Broker, run: Kshare) -> None:
    def refuse(response: Any) -> None:
        response.groups[0].error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED

    broker.faults.add(ShareGroupDescribeRequest, times=None, change=refuse)
    (row,) = top(run)["groups"]
    assert (row["state"], row["lag"]) == ("GROUP_AUTHORIZATION_FAILED", None)


@pytest.mark.lengthy
def test_once_prints_a_table(group: str, run: Kshare) -> None:
    done = run("top", "--once", "--interval", "0.1", "--view", "partitions", "--sort", "p")
    assert (done.code, done.err) == (0, "")
    head, heads, first, _ = done.out.splitlines()
    assert head.startswith("kshare top 127.0.0.1:")
    assert "vP" in heads.split()
    assert first.split()[:4] == [group, "orders", "1", "-"]


def test_unreachable_cluster_is_an_error(run: Kshare, free_tcp_port: int) -> None:
    assert_refused(run("top", "-b", f"127.0.0.1:{free_tcp_port}"), 1, "refused")


def test_wrong_usage_is_refused(broker: Broker, run: Kshare) -> None:
    done = run("top", "--sort", "weight")
    assert (done.code, done.out) == (2, "")
    assert "the columns are group, state, mem, parts, lag, redeliv" in done.err
    assert run("top", "--interval", "0").code == 2
    assert_refused(run("top", "--once", "--interval", "inf"), 2, "--interval inf: at most a day")


@pytest.mark.lengthy
def test_json_stream_ends_when_the_pipe_closes(group: str) -> None:
    with Piped("top", "--json", "--interval", "0.1") as reader:
        for _ in range(2):
            assert json.loads(reader.line())["groups"][0]["lag"] == 6
        reader.close()
        assert reader.end() == (141, b"")


@pytest.mark.lengthy
@pytest.mark.kshare_broker(settings={"group.share.max.size": "1"})
def test_groups_close_to_a_limit_are_named_last(group: str, broker: Broker, run: Kshare) -> None:
    with sync.Producer(broker.bootstrap) as producer:
        producer.enqueue("orders", b"x", partition=1, timestamp=int((time.time() - 1000) * 1000))
    broker.set_topic_config("orders", {"retention.ms": "1250000"})
    said = (
        f"! close to a limit: {group}: its oldest unsettled record has reached 80% of the retention and it has 1 of at "
        f"most 1 members. kshare doctor --group {group} has more"
    )
    assert run("top", "--once", "--interval", "0.1").out.splitlines()[-1] == said
    assert run("state", group).out.splitlines()[-1] == said
    (row,) = top(run)["groups"]
    assert (row["most_members"], row["oldest_share"] > 0.8) == (1, True)


# --- live


class Screen(Terminal):
    """The terminal's contents, frame by frame."""

    def __init__(self, columns: int, lines: int) -> None:
        self._columns = 0
        """The maximum width of the window so far."""
        self._newest = 0
        """The position of the last frame that was looked at."""
        super().__init__("top", "--interval", "0.1", columns=columns, lines=lines)

    def resize(self, columns: int, lines: int) -> None:
        """Earlier frames may be as wide as the window was then."""
        super().resize(columns, lines)
        self._columns = max(columns, self._columns)

    def wait_for(self, text: str, height: int | None = None) -> list[str]:
        """Wait for a frame with this text; asserts that it fits the window."""
        deadline = time.monotonic() + DEADLINE
        while True:
            for frame in self._frames():
                if text in " ".join(frame.split()) and height in (None, frame.count("\n") + 1):
                    self._newest = self.sent.rindex(_HOME)
                    lines = frame.splitlines()
                    assert max(map(len, lines)) <= self._columns
                    return lines
            assert self._read(deadline), f"not shown before it ended: {text!r}: {self.sent[-3000:]!r}"

    @property
    def since(self) -> bytes:
        """What was received since the last frame that was looked at."""
        return bytes(self.sent[self._newest :])

    def _frames(self) -> list[str]:
        """Complete frames; each starts by moving the cursor to the top left."""
        pieces = self.since.decode(errors="replace").split(_HOME.decode())[1:]
        return [_ESCAPES.sub("", piece).replace("\r\n", "\n") for piece in pieces if piece.count("\n") > 2]


@pytest.fixture
def screen(request: pytest.FixtureRequest, broker: Broker) -> Iterator[Screen]:
    columns, lines = getattr(request, "param", (80, 24))
    with Screen(columns, lines) as screen:
        yield screen


@pytest.mark.lengthy
@pytest.mark.parametrize("screen", [(80, 24), (200, 60)], indirect=True)
def test_views_on_a_terminal(group: str, screen: Screen, broker: Broker) -> None:
    frame = screen.wait_for("REDELIV")
    assert any(line.split()[:3] == [group, "Stable", "1"] for line in frame)
    screen.type("p")
    assert any(line.split()[:3] == [group, "orders", "0"] for line in screen.wait_for("START"))
    broker.produce("orders", [b"x"] * 90)
    screen.wait_for("lag 96")
    screen.type("m")
    screen.wait_for("truck")
    screen.type("?")
    screen.wait_for("Brokers don't tell")
    screen.type("x\x1b[D")
    screen.wait_for("vPARTS")
    screen.type("q")
    assert screen.end() == 0
    assert b"\x1b[?1049l" in screen.since  # restores the previous screen


@pytest.mark.lengthy
def test_resized_window(group: str, screen: Screen) -> None:
    screen.wait_for("REDELIV")
    screen.resize(120, 30)
    screen.wait_for("REDELIV", height=30)


@pytest.mark.lengthy
def test_errors_are_shown_and_requests_repeated(group: str, screen: Screen, broker: Broker) -> None:
    screen.wait_for("REDELIV")
    fault = broker.faults.add(ListGroupsRequest, times=None, error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    screen.wait_for("CLUSTER_AUTHORIZATION_FAILED")
    fault.stop()
    screen.wait_for("groups 1, members 1")


def test_ctrl_c_restores_the_terminal(screen: Screen) -> None:
    screen.wait_for("no visible share groups")
    os.killpg(screen.process.pid, signal.SIGINT)
    assert screen.end() == 130
    assert b"\x1b[?1049l" in screen.since
    assert b"Traceback" not in screen.sent

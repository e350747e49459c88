"""A broker that stops responding during a run: it is noticed and replaced, evidence is kept, and a report printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tools.runs.small_run import small_run

pytestmark = pytest.mark.lengthy

_CONFTEST = """
import tools.kafka.health
from tests.fakes.stand_in import StandIn

tools.kafka.health.RESPONSE_DEADLINE_S = 1.0


@pytest.fixture(scope="session")
def broker():
    with StandIn("4.1.2") as one:
        yield one


@pytest.fixture(scope="session")
def topic(broker):
    return f"made on {id(broker)}"
"""
_FROZEN_DURING_A_TEST = """
    def test_before(broker):
        pass

    def test_meets_it(broker, topic):
        mark = Path("frozen")
        if not mark.exists():
            mark.touch()
            broker.freeze()
            with socket.create_connection(broker.address(), timeout=0.5) as connection:
                connection.sendall(bytes([0, 0, 0, 8]) + bytes(8))
                connection.recv(1)
        assert topic == f"made on {id(broker)}"

    def test_after(broker):
        with socket.create_connection(broker.address(), timeout=20) as connection:
            connection.sendall(bytes([0, 0, 0, 8]) + bytes(8))
            assert connection.recv(1)
    """
_FROZEN_AND_NOBODY_MINDS = """
    def test_before(broker):
        broker.freeze()

    def test_after(broker):
        with socket.create_connection(broker.address(), timeout=20) as connection:
            connection.sendall(bytes([0, 0, 0, 8]) + bytes(8))
            assert connection.recv(1)
    """


@pytest.mark.parametrize("options", [[], ["-n", "1"]], ids=["in one process", "among workers"])
def test_affected_test_is_repeated_with_a_new_broker(tmp_path: Path, options: list[str]) -> None:
    done = small_run(tmp_path, _FROZEN_DURING_A_TEST, *options, conftest=_CONFTEST)
    assert done.returncode == 0, done.stdout
    assert "3 passed, 1 rerun" in done.stdout
    assert "1 broker stopped responding" in done.stdout
    told = " ".join(done.stdout.split())
    assert (
        "Kafka 4.1.2, node 1: it stopped responding (no response to DescribeCluster: timed out; "
        "asked 2 times, 1 s each) during test_it.py::test_meets_it; it was replaced" in told
    )
    assert "1 test run again: test_it.py::test_meets_it passed" in told
    (evidence,) = (tmp_path / "stopped-brokers").glob("*/*")
    assert str(evidence) in told
    assert (evidence / "threads.txt").read_text().startswith("Full thread dump")
    assert (evidence / "broker.log").exists()
    assert "its thread dump names a deadlock: one Java-level deadlock" in told


def test_broker_that_freezes_unnoticed_is_replaced_before_the_next_test(tmp_path: Path) -> None:
    done = small_run(tmp_path, _FROZEN_AND_NOBODY_MINDS, conftest=_CONFTEST)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    told = " ".join(done.stdout.split())
    assert "during or after test_it.py::test_before; it was replaced" in told
    assert "no test was run again" in told


def test_broker_whose_process_has_ended_is_reported(tmp_path: Path) -> None:
    body = _FROZEN_AND_NOBODY_MINDS.replace("broker.freeze()", "broker.process.kill()")
    done = small_run(tmp_path, body, conftest=_CONFTEST)
    assert done.returncode == 0, done.stdout
    assert "its process ended unexpectedly during or after test_it.py::test_before" in " ".join(
        done.stdout.split()
    )


def test_repeated_test_that_fails_again_has_failed(tmp_path: Path) -> None:
    body = """
        def test_freezes_it_every_time(broker):
            broker.freeze()
            assert 0, "nobody responds"

        def test_after(broker):
            pass
        """
    done = small_run(tmp_path, body, conftest=_CONFTEST)
    assert done.returncode == 1
    assert "1 failed, 1 passed, 1 rerun" in done.stdout
    assert "2 brokers stopped responding" in done.stdout
    assert "test_it.py::test_freezes_it_every_time failed" in " ".join(done.stdout.split())


def test_failure_with_a_responding_broker_is_not_repeated(tmp_path: Path) -> None:
    body = """
        def test_fails(broker):
            assert 0
        """
    done = small_run(tmp_path, body, conftest=_CONFTEST)
    assert done.returncode == 1
    assert "stopped responding" not in done.stdout
    assert not (tmp_path / "stopped-brokers").exists()


def test_evidence_is_kept_when_the_worker_process_is_killed(tmp_path: Path) -> None:
    body = """
        def test_hangs(broker):
            broker.freeze()
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            time.sleep(3600)
        """
    done = small_run(tmp_path, body, "-n", "1", "--timeout", "3", conftest=_CONFTEST)
    assert done.returncode == 1
    assert "crashed while running 'test_it.py::test_hangs'" in done.stdout
    assert "its process of the run was ended with it" in " ".join(done.stdout.split())
    (story,) = (tmp_path / "stopped-brokers").glob("*/*/story.json")
    assert json.loads(story.read_text())["has_failed"]

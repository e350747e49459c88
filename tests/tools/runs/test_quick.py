"""`--quick` omits tests that need a JVM or take seconds, runs the others, and reports what it omitted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.runs.small_run import small_run
from tools.runs.quick import LEFT_OUT

pytestmark = pytest.mark.lengthy

_TESTS = """
    @pytest.fixture
    def any_spark():
        raise AssertionError("a JVM was started")

    def test_plain(): pass
    def test_with_a_session(any_spark): raise AssertionError
    @pytest.mark.kafka
    @pytest.mark.java
    def test_of_both(): pass
    @pytest.mark.lengthy
    @pytest.mark.parametrize("number", range(1200))
    def test_lengthy(number): pass
    """


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "two workers"])
def test_omitted_tests_are_reported(tmp_path: Path, workers: tuple[str, ...]) -> None:
    done = small_run(tmp_path, _TESTS, "--quick", "--forbid-skips", *workers)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    said = done.stdout.partition("--quick left out ")[2].splitlines()
    assert said[0] == "1,202 tests; tools/test runs them:"
    assert said[1:4] == [
        "       1 kafka: need real Kafka brokers",
        "       1 spark: start Spark",
        "   1,200 lengthy: take long: builds, whole programs, waits",
    ]


def test_nothing_is_reported_if_nothing_was_omitted(tmp_path: Path) -> None:
    done = small_run(tmp_path, "def test_plain(): pass", "--quick")
    assert "1 passed" in done.stdout
    assert "left out" not in done.stdout


def test_lengthy_tests_run_without_quick(tmp_path: Path) -> None:
    done = small_run(tmp_path, "@pytest.mark.lengthy\ndef test_it(): pass")
    assert "1 passed" in done.stdout
    assert "left out" not in done.stdout


@pytest.mark.parametrize("marker", LEFT_OUT)
def test_each_marker_is_omitted(tmp_path: Path, marker: str) -> None:
    body = f"def test_plain(): pass\n@pytest.mark.{marker}\ndef test_it(): raise AssertionError"
    done = small_run(tmp_path, body, "--quick", "--long")
    assert done.returncode == 0, done.stdout
    assert f"       1 {marker}: " in done.stdout


def test_module_of_which_every_test_is_left_out_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "test_of_brokers.py").write_text(
        "import pytest\npytestmark = [pytest.mark.anyio, pytest.mark.kafka]\nraise AssertionError\n"
    )
    done = small_run(tmp_path, "@pytest.mark.java\ndef test_java(): pass\ndef test_plain(): pass", "--quick")
    assert done.returncode == 0, done.stdout
    assert "--quick left out 1 test modules and 1 other tests;" in done.stdout
    assert "       0 kafka: need real Kafka brokers, and 1 modules\n" in done.stdout
    assert "       1 java: run Kafka's own Java\n" in done.stdout


def test_a_broker_that_is_started_anyway_is_an_error(tmp_path: Path) -> None:
    body = "from tools.kafka.node import Node\ndef test_it(): Node.start(None)"
    done = small_run(tmp_path, body, "--quick")
    assert "RuntimeError: --quick starts no Kafka broker" in done.stdout
    assert done.returncode == 1

"""Asking a JVM for its threads and system properties."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kshare.spark import jvm
from tools.kafka.java import find_java


def test_a_jvm_responses(spark: SparkSession, jvm_pid: int) -> None:
    assert '"main"' in (jvm.threads(jvm_pid) or "")
    assert (jvm.properties(jvm_pid) or {})["spark.app.name"] == spark.sparkContext.appName


def test_properties_are_read_as_java_writes_them() -> None:
    text = "#Tue Nov 24\nspark.master=local[2]\nspark.a\\ b=spark\\://host\\:7077\nempty=\n"
    assert jvm.parse_properties(text) == {
        "spark.master": "local[2]",
        "spark.a b": "spark://host:7077",
        "empty": "",
    }


def test_a_process_that_is_no_jvm_gets_no_signal() -> None:
    with subprocess.Popen(["sleep", "60"]) as deaf:
        assert jvm.threads(deaf.pid) is None
        assert deaf.poll() is None
        deaf.kill()


@pytest.mark.lengthy
@pytest.mark.parametrize("flag", ["-XX:+StartAttachListener", "-Xrs"])
def test_a_jvm_that_listens_already_gets_no_signal(
    flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "Idle.java"
    source.write_text(
        'class Idle { public static void main(String[] a) throws Exception { System.out.println("up"); '
        "System.in.read(); } }",
        encoding="utf-8",
    )
    monkeypatch.setattr("os.kill", lambda *_: pytest.fail("it got a signal"))
    command: list[str | Path] = [find_java(), flag, source]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert '"main"' in (jvm.threads(process.pid) or "")

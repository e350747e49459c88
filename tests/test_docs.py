"""Checks all code blocks of the README and the docs: Python code runs, shell commands exist.

Examples that need a broker are run by `integration/test_docs.py`, with a real one.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from kshare.client.config import OPTIONS
from kshare.metrics.readings import METRICS
from tests.helpers.documents import BROKER, DOCUMENTS, ROOT, blocks

TYPED = {
    *("README.md", "consumer.md", "migrating.md", "producer.md"),
    *("shutdown.md", "testing.md", "worker-testing.md"),
}
CAPTURE = ROOT / "tests" / "cli" / "captures" / "ethernet.pcap"


@pytest.mark.lengthy
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_blocks_run_from_top_to_bottom(document: Path) -> None:
    code = "\n".join(
        text for language, text in blocks(document) if language == "python" and BROKER not in text
    )
    run([sys.executable, "-W", "error", "-c", code])


ALONE = [text for language, text in blocks(ROOT / "docs" / "testing.md") if language == "python"]


@pytest.mark.lengthy
@pytest.mark.parametrize("code", ALONE, ids=lambda code: str(ALONE.index(code)))
def test_each_example_of_the_page_about_testing_is_a_program_or_a_test_module(
    code: str, tmp_path: Path
) -> None:
    file = tmp_path / "test_example.py"
    file.write_text(code, encoding="utf-8")
    of_pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}"]
    run([sys.executable, "-W", "error", *(of_pytest if "def test_" in code else []), str(file)])


@pytest.mark.lengthy
def test_type_checkers_accept_the_examples_of_clients_and_broker(tmp_path: Path) -> None:
    typed = [document for document in DOCUMENTS if document.name in TYPED]
    assert {document.name for document in typed} == TYPED
    for document in typed:
        code = "\n".join(text for language, text in blocks(document) if language == "python")
        (tmp_path / f"{document.parent.name}_{document.stem}.py").write_text(code, encoding="utf-8")
    files = map(str, sorted(tmp_path.iterdir()))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.lengthy
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_in_shell_blocks_exist(document: Path) -> None:
    for language, text in blocks(document):
        if language == "sh":
            for line in text.replace("\\\n", " ").splitlines():
                check_command(shlex.split(line, comments=True))


def check_command(command: list[str]) -> None:
    """Run the command. If that would set up or run everything, only check that it accepts its arguments."""
    while re.match(r"\w+=", command[0]):
        command = command[1:]
    match command:
        case ["tools/test"]:
            assert "tools/test" in (ROOT / ".ci/run").read_text(), "CI doesn't run the command of the README"
        case ["tools/test", *arguments]:
            check_test_command(arguments)
        case ["tools/bench", *arguments]:
            run([sys.executable, "-m", "tools.benches", *arguments, "--help"])
        case ["tools/simulate", *arguments]:
            run([sys.executable, "-m", "tests.simulation", *arguments, "--help"])
        case ["tools/demo"]:
            run([sys.executable, "-m", "tools.demos"])
        case ["kshare", "broker", *arguments]:
            run([sys.executable, "-m", "kshare.cli", "broker", *arguments, "--help"])
        case ["kshare", ("worker" | "web" | "exporter") as name, *arguments]:
            run([sys.executable, "-m", "kshare.cli", name, *arguments, "--help"])
        case [".venv/bin/pre-commit", "install"]:
            run([sys.executable, "-m", "pre_commit", "validate-config"])
        case [".venv/bin/python", "-m", *_]:
            run([sys.executable, *command[1:], "--help"])
        case ["python", "-m", module, *arguments] if module.startswith("tools.kgen"):
            run([sys.executable, "-m", module, *arguments, "--help"])
        case ["kafka-features.sh", "--bootstrap-server", _, "describe" | "upgrade", *_]:
            pass  # Kafka's own: integration/test_net_security.py upgrades the feature by a request
        case ["pip", "install", _]:
            pass  # tests/test_packaging.py
        case ["kshare" | "echo" | "export" | "head", *_]:
            pass  # test_the_command_line_prints_what_its_guide_says runs these
        case _:
            pytest.fail(f"this test doesn't know how to check {shlex.join(command)!r}")


def check_test_command(arguments: list[str]) -> None:
    """Its options are known, and its paths exist."""
    for word, value in pairwise([*arguments, ""]):
        match word:
            case "--quick" | "--long":
                pass  # tests/tools/test_test.py
            case "-k":
                names = {word for word in value.split() if word not in ("and", "or", "not")}
                assert names <= {"every_record_once", "4.3.1", "trio", "embedded"}
            case path if path.startswith("tests/"):
                assert (ROOT / path).exists(), path
            case _:
                assert arguments[arguments.index(word) - 1] == "-k", word


def run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr or done.stdout


@pytest.mark.lengthy
def test_the_command_line_prints_what_its_guide_says(tmp_path: Path) -> None:
    program = tmp_path / "kshare"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -W error -m kshare.cli "$@"\n')
    program.chmod(0o755)
    shutil.copy(CAPTURE, tmp_path / "orders.pcap")
    paths = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "TZ": "UTC"}
    told = pairwise([*blocks(ROOT / "docs" / "cli.md"), ("", "")])
    commands = [(text, after) for (language, text), after in told if language == "sh"]
    assert commands
    for text, (language, output) in commands:
        done = subprocess.run(
            ["bash", "-c", text],
            cwd=tmp_path,
            env={**os.environ, **paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout == (output if language in ("text", "json") else ""), text


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_code_block_has_a_language(document: Path) -> None:
    languages = {"python", "sh", "text", "json", "toml", "yaml"}
    assert {language for language, _ in blocks(document)} <= languages


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_yaml_can_be_read(document: Path) -> None:
    assert all(yaml.safe_load(text) for language, text in blocks(document) if language == "yaml")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_targets_of_relative_links_exist(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def test_the_guide_names_every_option_and_every_metric() -> None:
    guide = (ROOT / "docs" / "consumer.md").read_text(encoding="utf-8")
    assert [name for name in OPTIONS if f"`{name}`" not in guide] == []
    assert [metric.name for metric in METRICS if f"`kshare.{metric.name}`" not in guide] == []

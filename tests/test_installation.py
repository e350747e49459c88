"""`--version` and `__version__`, and the warning that is logged once if nothing is compiled."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

import kshare
from kshare import fast, installation

ROOT = Path(__file__).parents[1]

TWICE = """
import logging
import tests.helpers.source_only
from kshare import sync
from kshare.testing import Broker

logging.basicConfig(format="%(levelname)s %(name)s %(message)s")
with Broker(topics={"orders": 1}) as broker:
    for _ in range(2):
        with sync.ShareConsumer(broker.bootstrap, group="shippers", topics=["orders"]):
            pass
"""


def python(*arguments: str, switch: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, fast.SWITCH: switch},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_version_is_that_of_the_installed_package() -> None:
    assert kshare.__version__ == version("kshare")


@pytest.mark.lengthy
@pytest.mark.parametrize("module", ["kshare", "kshare.cli"])
def test_the_command_says_its_version_python_and_whether_it_is_compiled(module: str) -> None:
    done = python("-m", module, "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"kshare {version('kshare')}, ")
    assert f"Python {platform.python_version()}" in done.stdout
    assert done.stdout.endswith(", compiled\n")


@pytest.mark.lengthy
def test_python_m_kshare_is_the_command() -> None:
    done = python("-m", "kshare", "groups", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: kshare groups" in done.stdout


def test_the_version_needs_no_extra() -> None:
    code = (
        "import sys; sys.modules['typer'] = None; sys.argv = ['kshare', '--version']\n"
        "from kshare.cli import main; main()"
    )
    assert python("-c", code).stdout.startswith("kshare ")


def test_the_version_reports_missing_compiled_modules_and_how_to_fix_that() -> None:
    code = "import tests.helpers.source_only, sys; sys.argv = ['kshare', '--version']; import kshare.cli as c; c.main()"
    done = python("-c", code)
    assert "not compiled" in done.stdout
    assert installation.SLOW in done.stdout
    assert "install a C compiler" in done.stdout
    assert "pip install --force-reinstall" in done.stdout


@pytest.mark.parametrize(
    ("source", "end"),
    [
        (None, f" {ROOT}"),
        ({"url": "file:///a%20b/kshare", "dir_info": {"editable": True}}, "-e '/a b/kshare'"),
        ({"url": "file:///src/kshare", "dir_info": {}}, " /src/kshare"),
        ({"url": "file:///tmp/kshare-0.1.whl", "archive_info": {}}, f" {ROOT}"),
    ],
)
def test_an_installation_from_a_folder_is_reinstalled_from_there(
    monkeypatch: pytest.MonkeyPatch, source: object, end: str
) -> None:
    """If pip has recorded the folder, or the sources are there: a package index may not have this version."""
    noted = None if source is None else json.dumps(source)
    monkeypatch.setattr(fast, "IS_ON", True)
    monkeypatch.setattr(installation, "distribution", lambda _: SimpleNamespace(read_text=lambda _: noted))
    command = installation.mend()
    assert command.startswith("pip install --force-reinstall --no-deps --no-cache-dir ")
    assert command.endswith(end)


def test_an_installation_from_nowhere_is_reinstalled_from_the_index(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(fast, "IS_ON", True)
    monkeypatch.setattr(installation, "distribution", lambda _: SimpleNamespace(read_text=lambda _: None))
    monkeypatch.setattr(installation, "_SOURCES", tmp_path)
    monkeypatch.setattr(installation, "_shadowed", lambda: None)
    assert installation.mend().endswith("--no-binary kshare kshare")


def test_sources_beside_the_program_are_told_from_an_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a clone, a program imports the sources there, which aren't compiled: installing again doesn't help."""
    (tmp_path / "kshare").mkdir()
    (tmp_path / "kshare" / "__init__.py").touch()
    monkeypatch.setattr(fast, "IS_ON", True)
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path, str(tmp_path)])
    monkeypatch.setattr(sys, "orig_argv", ["/bin/python", "my consumer.py", "-v"])
    assert (
        f"the sources in {ROOT} instead of the kshare that is installed in {tmp_path}"
        in installation.advice()
    )
    assert installation.mend() == "python -P 'my consumer.py' -v"


@pytest.mark.lengthy
def test_the_version_reports_that_compiled_modules_are_switched_off() -> None:
    done = python("-m", "kshare", "--version", switch="0")
    assert ", switched off\n" in done.stdout
    assert installation.SWITCHED_OFF in done.stdout
    assert done.stdout.endswith("unset it:\nunset KSHARE_FAST\n")
    assert "compile" not in done.stdout


@pytest.mark.lengthy
def test_a_process_with_the_switch_off_logs_that_once() -> None:
    done = python("-c", TWICE.replace("import tests.helpers.source_only", ""), switch="0")
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"WARNING kshare {installation.SWITCHED_OFF}; unless you are debugging")


@pytest.mark.lengthy
def test_a_process_without_compiled_modules_logs_that_once() -> None:
    done = python("-c", TWICE)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"WARNING kshare {installation.SLOW}; install a C compiler")


@pytest.mark.lengthy
def test_a_process_with_compiled_modules_logs_nothing() -> None:
    done = python("-c", TWICE.replace("import tests.helpers.source_only", ""))
    assert (done.returncode, done.stderr) == (0, "")


NEEDING_EXTRAS = [
    ("kshare.worker.prometheus", "prometheus", "prometheus_client"),
    ("kshare.metrics.prometheus", "prometheus", "prometheus_client"),
    ("kshare.worker.opentelemetry", "opentelemetry", "opentelemetry"),
    ("kshare.metrics.opentelemetry", "opentelemetry", "opentelemetry"),
    ("kshare.idempotency.redis", "redis", "redis"),
]


@pytest.mark.lengthy
@pytest.mark.parametrize(("module", "extra", "package"), NEEDING_EXTRAS)
def test_a_missing_extra_is_named(module: str, extra: str, package: str) -> None:
    program = f"import sys; sys.modules[{package!r}] = None; import {module}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ModuleNotFoundError: {module} needs {package}"), ended.stderr
    assert last.endswith(f": pip install 'kshare[{extra}]' (in a clone: '.[{extra}]')")

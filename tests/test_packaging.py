"""The distributions: a complete wheel, and an sdist that doesn't need a compiler."""

from __future__ import annotations

import ast
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import ziglang

from tools import packages, redis_server
from tools.spark import java_home

ROOT = Path(__file__).parents[1]

CHECK = """
import kshare.protocol.record as record
import kshare.protocol.messages.share_fetch_response as response
assert record.__file__.endswith(".py"), record.__file__
assert response.__file__.endswith(".py"), response.__file__
from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.records import read_batches
builder = BatchBuilder()
builder.append(b"works", timestamp=1)
assert [record.value for batch in read_batches(builder.build()) for record in batch] == [b"works"]
from kshare import ConfigError, ShareConsumer, __version__
from kshare.installation import is_compiled
assert __version__ != "unknown" and not is_compiled()
ShareConsumer("localhost:9092", group="orders", topics=["orders"])
try:
    login = {"sasl_mechanism": "PLAIN", "username": "alice", "password": "hush"}
    ShareConsumer("localhost:9092", group="orders", topics=["orders"], **login)
except ConfigError as error:
    assert "pip install 'kshare[sasl]'" in str(error), error
else:
    raise AssertionError("there is no SASL here")
message = response.ShareFetchResponse(responses=[response.ShareFetchableTopicResponse()])
assert response.ShareFetchResponse.decode(message.encode(1), 1) == message
"""

PROGRAMS = ROOT / "tests" / "clean_rooms"


class Room(NamedTuple):
    """What a page says has to be installed, and the programs that then run."""

    extras: str
    programs: tuple[str, ...]
    also: tuple[str, ...] = ()
    """Packages that kshare doesn't install, and the page names."""


ROOMS = (
    Room("", ("library",)),
    Room("", ("trio_loop",), ("trio",)),
    Room("", ("pytest_plugin",), ("pytest",)),
    Room("cli", ("commands",)),
    Room("sasl", ("login",)),
    Room("cli,sasl", ("login_of_commands",)),
    Room("web", ("console",)),
    Room("schema-registry", ("registry",)),
    Room("spark", ("spark_stream",)),
    Room("prometheus", ("prometheus",)),
    Room("opentelemetry", ("telemetry",)),
    Room("redis", ("redis_store",)),
)
NOT_FOR_USERS = {"bench", "dev"}
INSTALL_LINE = re.compile(r"pip install '(?:kshare|\.)\[([\w,-]+)\]'")


KEEPING_SOURCES = """#!/bin/sh
for argument in "$@"; do
    case "$argument" in *.c) cp "$argument" "{folder}/$(basename "$argument")" ;; esac
done
exec {compiler} "$@"
"""
ERRORS_OF_TODAY = (
    "-Werror=incompatible-pointer-types -Werror=implicit-function-declaration -Werror=int-conversion"
)
"""What gcc refuses from release 14 on."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, the wheel built from it, and the C sources of its modules in `c`."""
    folder = tmp_path_factory.mktemp("dist")
    (folder / "c").mkdir()
    compiler = folder / "compiler"
    usual = sysconfig.get_config_var("CC")
    compiler.write_text(KEEPING_SOURCES.format(folder=folder / "c", compiler=os.environ.get("CC", usual)))
    compiler.chmod(0o755)
    # Optimising takes the compiler most of its time.
    run(
        [sys.executable, "-m", "build", "--outdir", folder, ROOT],
        CC=str(compiler),
        CFLAGS=f"-O0 {ERRORS_OF_TODAY}",
        KSHARE_REQUIRE_COMPILED="1",
    )
    return folder


def compiled_modules() -> set[str]:
    """The last parts of their names: those with a .pxd that isn't for inlining."""
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    assigned = {
        ast.unparse(statement.targets[0]): statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign)
    }
    inlined: set[str] = ast.literal_eval(assigned["INLINED"])
    return {path.stem for path in (ROOT / "kshare").rglob("*.pxd")} - inlined


def run(command: list[str | Path], cwd: Path = ROOT, code: int = 0, **environment: str) -> str:
    """Run a command, without this project in its path. Returns its output."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == code, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout + done.stderr


def test_each_supported_python_has_a_classifier() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [
        classifier.removeprefix("Programming Language :: Python :: ") for classifier in project["classifiers"]
    ]
    assert [name for name in named if name.startswith("3.")] == ["3.11", "3.12", "3.13", "3.14"]
    assert project["requires-python"] == ">=3.11"
    assert {url.partition("/")[0] for url in project["urls"].values()} == {"https:"}


def test_an_editable_install_is_found_by_spark() -> None:
    """Setuptools adds a folder to sys.path only for this setting; Spark doesn't see what its finders would find."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert tools["setuptools"]["package-dir"] == {"": "."}


@pytest.mark.lengthy
def test_the_wheel_contains_types_and_tables(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "kshare/py.typed",
        "kshare/protocol/record.pxd",
        "kshare/protocol/messages/share_fetch_request.py",
    } <= names
    assert "kshare/dissect/fields/share_fetch_request.py" in names
    (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    assert b"\nProject-URL: Homepage, https://" in zipfile.ZipFile(wheel).read(metadata)
    # It was built on this machine, which has a compiler.
    binaries = {Path(name).name.partition(".")[0] for name in names if name.endswith((".so", ".pyd"))}
    assert binaries == compiled_modules()
    assert not wheel.name.endswith("-any.whl")
    assert not [
        name for name in names if name.startswith(("tests", "tools", "schemas")) or name.endswith(".c")
    ]


@pytest.mark.lengthy
def test_a_current_clang_accepts_all_modules(built: Path) -> None:
    """It refuses more than gcc does. Only the sources are checked: nothing is written."""
    sources = sorted((built / "c").glob("*.c"))
    assert {source.stem for source in sources} == compiled_modules()
    headers = Path(ziglang.__file__).parent / "lib" / "include"
    included: list[str | Path] = ["-isystem", headers, "-I", sysconfig.get_path("include")]
    clang: list[str | Path] = [sys.executable, "-m", "ziglang", "clang", *ERRORS_OF_TODAY.split()]
    run([*clang, "-fsyntax-only", *included, *sources])


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Environment variables that lead to what isn't installed with pip."""
    redis, url = redis_server.start(tmp_path_factory.mktemp("redis"))
    try:
        yield {"REDIS_URL": url, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    finally:
        redis.kill()


@pytest.mark.lengthy
@pytest.mark.parametrize("room", ROOMS, ids=lambda room: "-".join((room.extras or "kshare", *room.also)))
def test_programs_run_where_only_what_a_page_says_is_installed(
    built: Path, tmp_path: Path, services: dict[str, str], room: Room
) -> None:
    (wheel,) = built.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    wanted = [f"{wheel}[{room.extras}]" if room.extras else wheel, *room.also]
    assert packages.install(Path(sys.executable), *wanted, into=python)
    shutil.copytree(PROGRAMS, tmp_path / PROGRAMS.name, ignore=shutil.ignore_patterns("__pycache__"))
    for program in room.programs:
        run([python, "-m", f"{PROGRAMS.name}.{program}"], cwd=tmp_path, code=0, **services)


def test_every_documented_install_line_has_a_room() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "kshare").rglob("*.py")]
    lines = {line for page in pages for line in INSTALL_LINE.findall(page.read_text(encoding="utf-8"))}
    extras = {room.extras for room in ROOMS}
    assert lines <= extras
    assert {*project["optional-dependencies"]} - NOT_FOR_USERS <= {
        extra for room in extras for extra in room.split(",")
    }
    programs = {path.stem for path in PROGRAMS.glob("*.py")} - {"__init__", "shared", "shop"}
    assert {program for room in ROOMS for program in room.programs} == programs


@pytest.mark.lengthy
def test_the_sdist_installs_without_a_compiler(built: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert not [name for name in archive.getnames() if name.endswith((".c", ".so"))]
        archive.extractall(tmp_path / "sources", filter="data")
    (sources,) = (tmp_path / "sources").iterdir()
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    run([python, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path, sources], CC="/bin/false")
    assert not (sources / "build").exists()
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    run([python, "-m", "pip", "install", "--quiet", wheel])
    run([python, "-c", CHECK], cwd=tmp_path)
    said = run([python, "-m", "kshare", "--version"], cwd=tmp_path)
    assert f"Python {platform.python_version()}" in said
    assert "not compiled" in said
    assert "C compiler" in said
    assert "pip install --force-reinstall" in said
    missing = run([python, "-m", "kshare", "groups", "list"], cwd=tmp_path, code=1)
    assert "pip install 'kshare[cli]'" in missing

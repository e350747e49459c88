"""The distributions: a complete wheel, and an sdist that doesn't need a compiler."""

from __future__ import annotations

import ast
import os
import platform
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import ziglang

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

SHOP = """
import os
import signal

from kshare.worker import Worker

worker = Worker(os.environ["KSHARE_BOOTSTRAP_SERVER"], group="shippers")


@worker.handler("orders")
async def ship(order: str) -> None:
    print("shipped", order, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    worker.run()
"""
WORKERS = """
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from kshare.installation import is_compiled
from kshare.testing import Broker

assert is_compiled()
assert not [name for name in ("pytest", "sniffio", "trio") if find_spec(name)], "other packages than required"
with Broker(topics={"orders": 1}) as broker:
    broker.set_group_config("shippers", {"share.auto.offset.reset": "earliest"})
    os.environ["KSHARE_BOOTSTRAP_SERVER"] = broker.bootstrap
    for number, command in enumerate(
        (
            [Path(sys.executable).with_name("kshare"), "worker", "shop:worker"],
            [sys.executable, "shop.py"],
        )
    ):
        broker.produce("orders", [b"tea %d" % number])
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, f"shipped tea {number}\\n"), (done.stdout, done.stderr)
"""


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
    assigned = {ast.unparse(one.targets[0]): one.value for one in tree.body if isinstance(one, ast.Assign)}
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
    assert all(url.startswith("https://") for url in project["urls"].values())


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


@pytest.mark.lengthy
def test_workers_run_where_only_the_wheel_and_its_requirements_are_installed(
    built: Path, tmp_path: Path
) -> None:
    (wheel,) = built.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    run([python, "-m", "pip", "install", "--quiet", f"{wheel}[cli]"])
    (tmp_path / "shop.py").write_text(SHOP)
    run([python, "-c", WORKERS], cwd=tmp_path)


@pytest.mark.lengthy
def test_the_sdist_installs_without_a_compiler(built: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert not [name for name in archive.getnames() if name.endswith((".c", ".so"))]
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    run([python, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path, sdist], CC="/bin/false")
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

"""Importing `module:worker`: what is found, and one line for each failure."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kshare.cli.terminal.failure import Failure
from kshare.cli.worker.app_import import (
    describe_error,
    files_of,
    import_worker,
    imported_files,
    possible_files,
)
from kshare.worker import Worker

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes modules into the current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def do(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    yield do
    for name in set(sys.modules) - before:
        del sys.modules[name]


SHOP = "from kshare.worker import Worker\n{} = Worker(group='g')\nclass Parts: jobs = {}\ndef ship(): ...\n"


@pytest.mark.parametrize(
    ("name", "place"),
    [("worker", "shop"), ("app", "shop"), ("jobs", "shop:jobs"), ("jobs", "shop:Parts.jobs")],
)
def test_workers_are_found(write: Write, name: str, place: str) -> None:
    write("shop.py", SHOP.format(name, name))
    assert isinstance(import_worker(place), Worker)


def test_workers_in_packages_are_found(write: Write) -> None:
    write("store/__init__.py", "")
    path = write("store/jobs.py", SHOP.format("worker", "worker"))
    assert isinstance(import_worker("store.jobs:worker"), Worker)
    assert str(path) in imported_files()


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("shop:wurker", "shop has no wurker; its workers are worker"),
        ("shop:zzz", "shop has no zzz; its workers are worker"),
        ("shop:", "shop has no empty name; its workers are worker"),
        ("shop:ship", "shop:ship is a function, not a Worker; its workers are worker"),
        ("shop.py:worker", "shop.py:worker: write a module, not a file: shop:worker"),
        ("shop.more:worker", "there is no module shop.more in "),
        ("other:worker", "there is no module other in "),
        ("", "'' isn't the name of a module"),
        (".shop", "'.shop' isn't the name of a module"),
    ],
)
def test_wrong_places_are_explained(write: Write, place: str, reason: str) -> None:
    write("shop.py", SHOP.format("worker", "worker"))
    with pytest.raises(Failure) as caught:
        import_worker(place)
    assert reason in str(caught.value)


def test_a_module_without_the_usual_names(write: Write) -> None:
    write("shop.py", SHOP.format("jobs", "jobs"))
    with pytest.raises(Failure, match="shop has no worker or app: write shop:NAME; its workers are jobs"):
        import_worker("shop")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import json\njson.loads('{')", "importing shop failed: JSONDecodeError: Expecting"),
        ("import json\njson.loads('{')", "(shop.py, line 2, in <module>: json.loads('{'))"),
        (
            "import nothing_there",
            "No module named 'nothing_there' (shop.py, line 1, in <module>: import nothing",
        ),
        ("from json import nothing", "ImportError: cannot import name 'nothing' from 'json'"),
        ("x = (", "importing shop failed: shop.py, line 1: '(' was never closed"),
        ("raise SystemExit(3)", "importing shop ended the program with 3: guard what shouldn't run with"),
        (
            "class Odd(BaseException): ...\nraise Odd('x')",
            "importing shop failed: Odd: x (shop.py, line 2, in <module>",
        ),
        ("raise KeyError", "importing shop failed: KeyError (shop.py, line 1, in <module>: raise KeyError)"),
    ],
)
def test_errors_while_importing_show_the_line_of_the_user(write: Write, text: str, reason: str) -> None:
    path = write("shop.py", text)
    with pytest.raises(Failure) as caught:
        import_worker("shop")
    assert reason in str(caught.value)
    assert str(path) in files_of(caught.value)


@pytest.mark.parametrize(("place", "part"), [("shop:parts.jobs", "jobs"), ("shop", "worker")])
def test_a_worker_that_cannot_be_read_shows_the_line_of_the_user(write: Write, place: str, part: str) -> None:
    text = "class Parts:\n    @property\n    def jobs(self): return 1 // 0\nparts = Parts()\n"
    write("shop.py", f"{text}def __getattr__(name): return parts.jobs\n")
    with pytest.raises(Failure) as caught:
        import_worker(place)
    reason = f"reading {part} of {place} failed: ZeroDivisionError: integer division or modulo by zero (shop.py, line 3"
    assert reason in str(caught.value)


def test_values_that_cannot_be_asked_for_their_class_are_no_workers(write: Write) -> None:
    """Such as proxies of web frameworks, outside of a request."""
    text = "class Proxy:\n    @property\n    def __class__(self): return 1 // 0\nrequest = Proxy()\n"
    write("shop.py", text + SHOP.format("worker", "worker"))
    assert isinstance(import_worker("shop"), Worker)
    with pytest.raises(Failure, match="shop:request is a Proxy, not a Worker; its workers are worker"):
        import_worker("shop:request")


def test_an_error_outside_of_the_users_code_has_no_line() -> None:
    try:
        int("x")
    except ValueError as error:
        error.__traceback__ = None
        assert describe_error(error) == "ValueError: invalid literal for int() with base 10: 'x'"


def test_files_that_the_module_may_be_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here = str(Path.cwd())
    assert possible_files("shop.jobs:app") == {f"{here}/shop/jobs.py", f"{here}/shop/jobs/__init__.py"}

"""No object of a compiled class crashes the interpreter, even if it was made without its arguments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

USES = """
import copy
import pickle
import sys
from importlib import import_module
from pathlib import Path

# All arguments of a call. Numbers reach code that None doesn't, as it can't be converted to a C integer.
VALUES = (None, 0, 1, b"12345678")
OF_OBJECTS = {*dir(object), "__slots__", "__module__", "__dict__", "__weakref__", "__pyx_vtable__"}


def attempt(what, *arguments):
    try:
        return what(*arguments)
    except BaseException:
        return None


def use(one):
    for operation in (repr, len, list, hash, bool, copy.copy, copy.deepcopy, pickle.dumps):
        attempt(operation, one)
    for name in dir(one):
        if name not in OF_OBJECTS:
            found = attempt(getattr, one, name)
            attempt(found)
            for value in VALUES:
                for count in range(1, 4):
                    attempt(found, *[value] * count)


count, seen = 0, set()
for path in sorted(Path("kshare").rglob("*.pxd")):
    if path.stem == "__init__":
        continue
    module = import_module(".".join(path.with_suffix("").parts))
    for cls in list(vars(module).values()):
        if not isinstance(cls, type) or cls.__module__ not in (module.__name__, "kshare") or cls in seen:
            continue
        seen.add(cls)
        count += 1
        print(cls, flush=True)
        below = attempt(type, "Below", (cls,), {})
        for make in (lambda: cls.__new__(cls), cls, lambda: below.__new__(below), below):
            use(attempt(make))
            for name in dir(cls):
                one = attempt(make)
                if name not in OF_OBJECTS and one is not None:
                    attempt(setattr, one, name, None)
                    use(one)
        for value in VALUES:
            for arguments in range(1, 9):
                use(attempt(cls, *[value] * arguments))
print(count, "classes")
"""


@pytest.mark.lengthy
def test_no_object_of_a_compiled_class_crashes() -> None:
    """The last line that a crashed process has printed is the class."""
    done = subprocess.run(
        [sys.executable, "-c", USES], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout.splitlines()[-1:]
    assert int(done.stdout.split()[-2]) > 30

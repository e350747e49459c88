"""Imports the worker that `module:name` stands for. Every failure is one line that says what is wrong, and where."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType
from typing import TypeGuard

import kshare
from kshare.cli.terminal.failure import Failure
from kshare.errors import ConfigError
from kshare.worker import Worker

_USUAL_NAMES = ("worker", "app")


def import_worker(place: str) -> Worker:
    """`module:name`, or only the module if the name is `worker` or `app`. Raises Failure."""
    module_name, colon, name = place.partition(":")
    if module_name.endswith(".py") or "/" in module_name:
        parts = Path(module_name).with_suffix("").parts
        raise Failure(f"{place}: write a module, not a file: {'.'.join(parts)}{colon}{name}")
    module = _import(module_name)
    if not colon:
        name = next((usual for usual in _USUAL_NAMES if _has(module, usual)), "")
        if not name:
            raise Failure(
                f"{module_name} has no worker or app: write {module_name}:NAME{_workers_in(module)}"
            )
    found: object = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise Failure(f"{module_name} has no {name or 'empty name'}{_workers_in(module)}") from None
        except Exception as error:
            raise _failure(f"reading {part} of {place} failed", error) from error
    if not _is_worker(found):
        kind = type(found).__name__
        raise Failure(f"{module_name}:{name} is a {kind}, not a Worker{_workers_in(module)}")
    return found


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise Failure(f"there is no module {error.name} in {here} or on Python's path") from None
        raise _failure(f"importing {name} failed", error) from error
    except SystemExit as error:
        raise Failure(
            f"importing {name} ended the program with {error.code!r}: guard what shouldn't run with "
            'if __name__ == "__main__"'
        ) from error
    except (ImportError, ValueError, TypeError) as error:
        if not name or name.startswith("."):
            raise Failure(f"{name!r} isn't the name of a module: write it as in shop.orders:worker") from None
        raise _failure(f"importing {name} failed", error) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _failure(f"importing {name} failed", error) from error


def _failure(what: str, error: BaseException) -> Failure:
    """Several mistakes of a configuration keep their lines."""
    text = f"{what}: {describe_error(error)}"
    return Failure(*text.split("\n")) if isinstance(error, ConfigError) else Failure(text)


def _has(module: ModuleType, name: str) -> bool:
    """Whether the module has it, even if reading it fails."""
    try:
        getattr(module, name)
    except AttributeError:
        return False
    except Exception:
        return True
    return True


def _is_worker(value: object) -> TypeGuard[Worker]:
    """Unlike isinstance, this doesn't ask the value, which may raise: proxies of web frameworks do."""
    return issubclass(type(value), Worker)


def _workers_in(module: ModuleType) -> str:
    names = sorted(name for name, value in vars(module).items() if _is_worker(value))
    return f"; its workers are {', '.join(names)}" if names else ""


# --- errors in the user's code


def describe_error(error: BaseException) -> str:
    """What was raised, and the line of the user's code where it came from."""
    if isinstance(error, SyntaxError):
        return f"{_shown(error.filename or '?')}, line {error.lineno}: {error.msg}"
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
    if not frames:
        return what
    last = frames[-1]
    gap = "\n" if "\n" in what else " "
    return f"{what}{gap}({_shown(last.filename)}, line {last.lineno}, in {last.name}: {last.line})"


def is_in_users_code(error: BaseException) -> bool:
    return any(is_users(frame.filename) for frame in traceback.extract_tb(error.__traceback__))


def files_of(error: BaseException | None) -> set[str]:
    """The user's files that an error, or its cause, came from."""
    found: set[str] = set()
    while error is not None:
        found |= {frame.filename for frame in traceback.extract_tb(error.__traceback__)}
        if isinstance(error, SyntaxError) and error.filename:
            found.add(error.filename)
        error = error.__cause__
    return {file for file in found if is_users(file)}


def possible_files(place: str) -> set[str]:
    """Where the module may be: it may not exist yet."""
    path = Path.cwd().joinpath(*place.partition(":")[0].split("."))
    return {str(path.with_suffix(".py")), str(path / "__init__.py")}


def imported_files() -> set[str]:
    """The source files of all modules of the user that are imported."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return {file for file in files if file is not None and file.endswith(".py") and is_users(file)}


_NOT_USERS = tuple(
    os.path.join(os.path.realpath(path), "")  # noqa: PTH118  as the prefix of a text
    for path in (
        *(sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")),
        *kshare.__path__,
    )
    if path
)


@functools.cache
def is_users(file: str) -> bool:
    """Whether the file is neither Python's, nor an installed package's, nor kshare's."""
    return not file.startswith("<") and not os.path.realpath(file).startswith(_NOT_USERS)


def _shown(file: str) -> str:
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else file

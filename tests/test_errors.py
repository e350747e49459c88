"""Every exception can be copied and pickled with its message and fields: one that can't breaks a process pool."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kshare.errors import (
    BrokerError,
    CorruptBatchError,
    DecodeError,
    DeserializationFailed,
    KshareError,
    own_copy,
)
from kshare.fleet.no_status import Why
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.record import Record
from tests.helpers.raised_variables import kept_errors
from tools.modules import modules

RECORD = SimpleNamespace(topic="orders", partition=3, offset=12, size=100)
ARGUMENTS: dict[str, Any] = {
    "Any": RECORD,
    "BrokerError": BrokerError(10, "producing"),
    "DecodeError": DecodeError("responses", 7, "cut short"),
    "ErrorCode": ErrorCode.MEMBER_ID_REQUIRED,
    "Exception": ValueError("no number"),
    "KshareError": KshareError("gone"),
    "NewRecord": RECORD,
    "ShareRecord": RECORD,
    "Why": next(iter(Why)),
    "bool": True,
    "float": 2.5,
    "int": 5,
    "list[int]": [1, 3],
    "str": "text",
    "str | None": "text",
}
"""By annotation."""


SOURCES = modules("kshare") | modules("pyspark_kshare")


def exceptions() -> dict[str, type[BaseException]]:
    for name in SOURCES:
        if not name.endswith("__main__"):
            import_module(name)
    found: dict[str, type[BaseException]] = {}
    waiting: list[type[BaseException]] = [BaseException]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__ in SOURCES:
            found[f"{kind.__module__}.{kind.__qualname__}"] = kind
    return found


EXCEPTIONS = exceptions()


def instance(kind: type[BaseException]) -> BaseException:
    owner = next(base for base in kind.__mro__ if "__init__" in vars(base))
    if owner.__module__ not in SOURCES:
        return kind("what happened")
    parameters = inspect.signature(kind).parameters.values()
    by_name = {
        parameter.name: ARGUMENTS[str(parameter.annotation)]
        for parameter in parameters
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    rest = [
        ARGUMENTS[str(parameter.annotation)]
        for parameter in parameters
        if parameter.kind is not parameter.KEYWORD_ONLY
    ]
    return kind(*rest, **by_name)


def fields(error: BaseException) -> dict[str, str]:
    return {name: repr(value) for name, value in vars(error).items() if name != "record"}


def pickled(error: BaseException) -> BaseException:
    found: BaseException = pickle.loads(pickle.dumps(error))
    return found


def test_they_are_found() -> None:
    assert {"kshare.errors.BrokerError", "kshare.cli.terminal.failure.Misuse"} <= {*EXCEPTIONS}
    assert len(EXCEPTIONS) > 50


@pytest.mark.parametrize("copied", [pickled, copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"])
@pytest.mark.parametrize("name", EXCEPTIONS)
def test_a_copy_has_the_same_message_and_fields(
    name: str, copied: Callable[[BaseException], BaseException]
) -> None:
    error = instance(EXCEPTIONS[name])
    error.add_note("in line 7")
    other = copied(error)
    assert type(other) is type(error)
    assert (str(other), repr(other.args), fields(other)) == (str(error), repr(error.args), fields(error))


def test_a_record_that_could_not_be_deserialized_stays_in_its_process() -> None:
    record = Record.__new__(Record)
    error = DeserializationFailed(RECORD, "value", ValueError("no number"))
    error.record = record
    assert copy.copy(error).record is record
    assert copy.deepcopy(error).record is None
    assert pickled(error).record is None  # type: ignore[attr-defined]


def fail() -> None:
    raise CorruptBatchError(12, 17, "the checksum is wrong")


@pytest.mark.lengthy
def test_an_error_in_a_process_pool_reaches_the_caller_and_the_pool_works_on() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        with pytest.raises(CorruptBatchError, match="batch at partition offset 12 at byte 17"):
            pool.submit(fail).result(60)
        assert pool.submit(abs, -3).result(60) == 3


def test_a_copy_to_raise_has_no_traceback_and_the_same_cause() -> None:
    cause = OSError("unplugged")

    class Foreign(Exception):
        def __init__(self, one: int, two: int) -> None:
            super().__init__(f"{one} {two}")

    for error in (KshareError("it failed"), BrokerError(42, "refused"), Foreign(1, 2)):
        error.__cause__ = cause
        for _ in range(3):
            with pytest.raises(type(error)) as raised:
                raise own_copy(error)
            assert len(raised.traceback) == 1
            assert str(raised.value) == str(error)
            assert raised.value.__cause__ is cause


ROOT = Path(__file__).parents[1]
ON_THE_WAY_TO_USERS = ("admin", "client", "engine", "net", "producer", "sync")
"""Packages whose errors are raised in the user's code, which may have left a loop there."""
KEPT = {"kshare/producer/fenced.py": 3}
"""A writer that has failed raises the same error again. Only journals have one, in Spark's driver."""


@pytest.mark.lengthy
def test_no_frame_keeps_the_error_that_it_raises() -> None:
    found = {}
    for package in ON_THE_WAY_TO_USERS:
        for path in (ROOT / "kshare" / package).rglob("*.py"):
            kept = [*kept_errors(ast.parse(path.read_text(encoding="utf-8")))]
            if kept:
                found[path.relative_to(ROOT).as_posix()] = len(kept)
    assert found == KEPT


@pytest.mark.parametrize(
    "code",
    ["raise error", "raise errors[0] from None", "raise self.error", "try: pass\nexcept E as e: raise error"],
)
def test_frames_that_keep_errors_are_found(code: str) -> None:
    assert len([*kept_errors(ast.parse(code))]) == 1


@pytest.mark.parametrize(
    "code",
    [
        "raise",
        "raise KshareError",
        "raise errors.KshareError",
        "raise make_error()",
        "try: pass\nexcept E as error: raise error",
        "try: raise error\nfinally: del error",
    ],
)
def test_frames_that_keep_none_are_not_found(code: str) -> None:
    assert [*kept_errors(ast.parse(code))] == []

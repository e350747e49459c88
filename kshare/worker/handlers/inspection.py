"""Inspects handler functions: how to call them, and which of their parameters gets what.

A handler takes the payload, a `Delivery`, or both, in any order: the parameter that is annotated with `Delivery` (or
`Deliveries` for batches) gets that, the other one the payload. A batch handler's payload is a list.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from kshare.callbacks import is_async, is_generator
from kshare.errors import ConfigError
from kshare.worker.handlers.payloads import Decode, decoder_for
from kshare.worker.records.delivery import Deliveries, Delivery

RunsIn = Literal["loop", "thread", "process"]


@dataclass(frozen=True, slots=True)
class HandlerCall:
    """How to call a handler."""

    function: Callable[..., Any]
    name: str
    runs_in: RunsIn
    decode: Decode | None
    """Converts values; None if the handler takes them as they are."""
    takes_payload: bool
    takes_delivery: bool
    is_payload_first: bool

    def arguments(self, payload: Any, delivery: Any) -> tuple[Any, ...]:
        if not self.takes_delivery:
            return (payload,) if self.takes_payload else ()
        if not self.takes_payload:
            return (delivery,)
        return (payload, delivery) if self.is_payload_first else (delivery, payload)


def inspect_handler(
    function: Callable[..., Any], *, is_batch: bool = False, runs_in: RunsIn | None = None
) -> HandlerCall:
    """Raises ConfigError if the function can't be a handler."""
    name = getattr(function, "__qualname__", None) or repr(function)
    if not callable(function):
        raise ConfigError(f"a handler must be a function, not {function!r}")
    if isinstance(function, type):
        raise ConfigError(f"a handler must be a function, not the class {name}")
    target = function.func if isinstance(function, partial) else function
    if is_generator(function):
        raise ConfigError(
            f"handler {name} is a generator: its result would never be read. Return instead of yielding"
        )
    returns_awaitable = is_async(function)
    if returns_awaitable and runs_in not in (None, "loop"):
        require_place(runs_in)
        raise ConfigError(f"handler {name} is async, so it can't run in a {runs_in}: leave `runs_in` out")
    if not returns_awaitable and runs_in == "loop":
        raise ConfigError(
            f'handler {name} is a plain function, which would block the event loop: use runs_in="thread" or "process"'
        )
    where: RunsIn = "loop" if returns_awaitable else runs_in or "thread"
    require_place(where)
    parameters = _parameters(function, name)
    hints = _hints(target)
    delivery_kinds = (Deliveries, list[Delivery]) if is_batch else (Delivery,)
    wanted = "Deliveries" if is_batch else "Delivery"
    takes = [(parameter, hints.get(parameter, Any)) for parameter in parameters]
    deliveries = [parameter for parameter, kind in takes if kind in delivery_kinds]
    payloads = [(parameter, kind) for parameter, kind in takes if kind not in delivery_kinds]
    for parameter, kind in payloads:
        if kind in (Delivery, Deliveries, list[Delivery]):
            raise ConfigError(f"handler {name}: annotate {parameter} with {wanted} here, not with {kind!r}")
        if is_batch and kind is not Any and get_origin(kind) is not list:
            raise ConfigError(f"batch handler {name}: annotate {parameter} with list[...], not {kind!r}")
    if len(deliveries) > 1 or len(payloads) > 1 or not takes:
        raise ConfigError(
            f"handler {name} takes {', '.join(parameters) or 'nothing'}: it must take the payload, a parameter "
            f"annotated with {wanted}, or both"
        )
    if where == "process" and deliveries:
        raise ConfigError(
            f"handler {name} runs in another process, which can't settle records: take the payload only"
        )
    if where == "process" and ("<locals>" in name or "<lambda>" in name):
        raise ConfigError(_not_found(name, "it is defined in another function, or has no name"))
    decode = None
    if payloads:
        kind = payloads[0][1]
        decode = decoder_for((get_args(kind) or (Any,))[0] if is_batch and kind is not Any else kind, name)
    return HandlerCall(
        function,
        name,
        where,
        decode,
        bool(payloads),
        bool(deliveries),
        is_payload_first=not deliveries or parameters[0] != deliveries[0],
    )


def require_place(runs_in: object) -> None:
    if runs_in not in ("loop", "thread", "process"):
        raise ConfigError(f'runs_in must be "thread" or "process", not {runs_in!r}')


def require_findable(call: HandlerCall) -> None:
    """Raises ConfigError if the function is to run in other processes, and can't be passed to them."""
    if call.runs_in == "process":
        try:
            pickle.dumps(call.function)
        except Exception as problem:
            raise ConfigError(_not_found(call.name, str(problem))) from problem


def _not_found(name: str, reason: str) -> str:
    return (
        f"handler {name} can't run in other processes, which import it by its name ({reason}): define it at the top "
        "level of a module"
    )


_DELIVERY_TYPES = (Delivery, Deliveries, "Delivery", "Deliveries")


def _parameters(function: Callable[..., Any], name: str) -> list[str]:
    """The names of the parameters that have to be given."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise ConfigError(
            f"handler {name} has no signature that Python can inspect: wrap it in a function"
        ) from None
    wanted = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            raise ConfigError(
                f"handler {name}: {parameter.name} can only be passed by name, which the worker doesn't do"
            )
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) and (
            parameter.default is parameter.empty or parameter.annotation in _DELIVERY_TYPES
        ):
            wanted.append(parameter.name)
    return wanted


def _hints(target: Any) -> dict[str, Any]:
    """The annotations of the parameters, evaluated. `Delivery` may be imported for type checkers only."""
    function = target if inspect.isroutine(target) else getattr(target, "__call__", target)  # noqa: B004
    function = inspect.unwrap(function)
    names = {"Delivery": Delivery, "Deliveries": Deliveries, **getattr(function, "__globals__", {})}
    found = {}
    for name, kind in getattr(function, "__annotations__", {}).items():
        if name == "return":
            continue
        try:
            found[name] = _evaluated(kind, names)
        except Exception as error:
            raise ConfigError(
                f"handler {getattr(target, '__qualname__', target)}: the annotation of {name} can't be evaluated: "
                f"{error}. Define or import this type at module level"
            ) from None
    return found


def _evaluated(kind: Any, names: dict[str, Any]) -> Any:
    holder = SimpleNamespace(__annotations__={"it": kind})
    return get_type_hints(holder, globalns=names)["it"]

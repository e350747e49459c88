"""Calls a handler: with what it takes, where it runs, and the middleware around it."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import anyio
from anyio import from_thread

from kshare.errors import KshareError
from kshare.worker.functions.process_calls import ProcessCalls
from kshare.worker.functions.user_functions import call_plain, require_ended
from kshare.worker.handlers.routes import GoOn
from kshare.worker.host import RunningHandler
from kshare.worker.records.delivery import Deliveries, Delivery, set_caller
from kshare.worker.run.thread_places import ThreadPlaces


class Caller:
    """Plain functions have as many threads or processes as `concurrency` says."""

    def __init__(self, handler: RunningHandler) -> None:
        self._call = handler.route.call
        self._watch = handler.watch
        self._middleware: Sequence[Callable[[Any, GoOn], Awaitable[None]]] = handler.route.middleware
        self._summary = handler.summary
        self._processes = ProcessCalls(handler.options.most_at_once)
        self._threads = ThreadPlaces(handler.options.most_at_once, self._on_no_thread)

    def _on_no_thread(self) -> None:
        """A function has to wait, because cancelled ones haven't ended."""
        cause = (
            "records wait, because threads still run functions that were cancelled: long functions should end when "
            "`delivery.is_cancelled` is true"
        )
        self._summary.event(logging.ERROR, cause)

    async def close(self) -> None:
        """End the processes, when nothing runs any more."""
        await self._processes.close()

    @property
    def is_plain(self) -> bool:
        """Whether `plain` is enough: an async function that takes only the payload, and nobody watches."""
        call = self._call
        if self._watch.is_on:
            return False
        return call.runs_in == "loop" and call.takes_payload and not (call.takes_delivery or self._middleware)

    def plain(self) -> Callable[[bytes | None], Awaitable[Any]]:
        """The handler as a function of the value."""
        function, decode = self._call.function, self._call.decode
        if decode is None:
            return function
        return lambda value: function(decode(value))

    def check_result(self, result: Any) -> None:
        """Raises KshareError if the handler has only begun."""
        require_ended(self._call.function, result)

    async def one(self, delivery: Delivery) -> None:
        """Call a record handler."""
        call = self._call

        async def handler() -> None:
            if call.takes_payload:
                delivery.payload = self._payload(delivery)
            await self._run(call.arguments(delivery.payload, delivery), [delivery])

        try:
            with self._watch.run((delivery,)):
                await self._through_middleware(delivery, handler)
        finally:
            delivery.is_over = True

    async def batch(self, deliveries: list[Delivery]) -> None:
        """Call a batch handler, with deliveries whose payload was set by `decode`."""
        whole = Deliveries(deliveries)

        async def handler() -> None:
            await self._run(self._call.arguments([delivery.payload for delivery in whole], whole), whole)

        try:
            with self._watch.run(tuple(whole), is_batch=True):
                await self._through_middleware(whole, handler)
        finally:
            for delivery in deliveries:
                delivery.is_over = True

    async def _through_middleware(
        self, subject: Delivery | Deliveries, handler: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        following = handler
        for middleware in reversed(self._middleware):
            following = partial(_around, middleware, subject, following)
        await following()

    def decode(self, delivery: Delivery) -> None:
        """Raises PayloadError."""
        if self._call.takes_payload:
            delivery.payload = self._payload(delivery)

    def _payload(self, delivery: Delivery) -> Any:
        decode = self._call.decode
        return delivery.value if decode is None else decode(delivery.value)

    async def _run(self, arguments: tuple[Any, ...], deliveries: list[Delivery]) -> None:
        call = self._call
        if call.runs_in == "loop":
            self.check_result(await call.function(*arguments))
        elif call.runs_in == "process":
            await self._processes.call(call.function, arguments)
        else:
            await self._run_in_thread(partial(call_plain, call.function), arguments, deliveries)

    async def _run_in_thread(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], deliveries: list[Delivery]
    ) -> None:
        for delivery in deliveries:
            set_caller(delivery, _call_in_loop)
        try:
            # A thread can't be interrupted. If this is cancelled, its result doesn't count, and nothing waits for it.
            await self._threads.run(function, arguments, deliveries)
        except anyio.get_cancelled_exc_class():
            for delivery in deliveries:
                delivery.is_cancelled = True
            raise
        finally:
            # Middleware may still decide. Threads that the handler has started, and its own if it was cancelled, go on.
            for delivery in deliveries:
                set_caller(delivery, _caller_in_this_thread(delivery))


async def _around(
    middleware: Callable[[Any, GoOn], Awaitable[None]],
    subject: Delivery | Deliveries,
    go_on: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    """Call a middleware. Raises KshareError if the handler hasn't ended when the middleware has."""
    begun: list[Coroutine[Any, Any, None]] = []

    def following() -> Coroutine[Any, Any, None]:
        begun.append(go_on())
        return begun[-1]

    await middleware(subject, following)
    for call in begun:
        if inspect.getcoroutinestate(call) != inspect.CORO_CLOSED:
            if inspect.getcoroutinestate(call) == inspect.CORO_CREATED:
                call.close()
            name = getattr(middleware, "__qualname__", repr(middleware))
            raise KshareError(
                f"middleware {name} ended before the handler: it must await the function that it is passed"
            )


def _call_in_loop(act: Callable[[], None]) -> None:
    """For deliveries whose handler runs in another thread."""
    problems: list[KshareError] = []

    def call() -> None:
        try:
            act()
        except KshareError as problem:
            problems.append(problem)

    try:
        from_thread.run_sync(call)
    except RuntimeError as error:
        raise KshareError(
            "a record can't be settled by a thread that the handler has started: do it in the handler's own thread"
        ) from error
    if problems:
        raise problems.pop()  # no variable has it any more: see `kshare.errors`


def _caller_in_this_thread(delivery: Delivery) -> Callable[[Callable[[], None]], None]:
    """For a delivery whose handler ran in another thread, and may still be running there if it was cancelled."""
    thread = threading.get_ident()

    def call(act: Callable[[], None]) -> None:
        if threading.get_ident() != thread:
            what = "was cancelled" if delivery.is_cancelled else "has ended"
            raise KshareError(f"the record can no longer be settled: its handler {what}")
        act()

    return call

"""Handlers and workers: what users write.

    worker = Worker("localhost:9092", group="orders")

    @worker.handler("orders", concurrency=50)
    async def ship(order: Order) -> None: ...

    worker.run()

`Handlers` collects handlers, so that an application can be composed of parts; a `Worker` is one that can run them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from kshare.callbacks import is_async, require_callback, require_plain
from kshare.errors import ConfigError
from kshare.options.mistakes import Mistakes
from kshare.protocol.topic_names import require_topic_name
from kshare.worker.functions.user_functions import is_plain_function
from kshare.worker.handlers.inspection import inspect_handler, require_findable
from kshare.worker.handlers.options import HandlerOptions, check_options
from kshare.worker.handlers.routes import BatchMiddleware, Middleware, OnError, Route

if TYPE_CHECKING:
    from kshare.worker.handlers.option_types import HandlerSettings

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
Hook = Callable[[], Awaitable[None] | None]
Topic = str | re.Pattern[str]


class Handlers:
    """Handlers that belong together, with options that they have in common. `include` adds them to a worker."""

    def __init__(self, **defaults: Unpack[HandlerSettings]) -> None:
        check_options(defaults)
        self.defaults: dict[str, Any] = dict(defaults)
        self._parts: list[_Declared | Handlers] = []
        self._middleware: list[Middleware] = []
        self._batch_middleware: list[BatchMiddleware] = []
        self._startup: list[Hook] = []
        self._shutdown: list[Hook] = []
        self._on_error: list[OnError] = []

    def handler(self, *topics: Topic, **options: Unpack[HandlerSettings]) -> Callable[[FunctionT], FunctionT]:
        """Let a function process the records of these topics, one by one. Compiled patterns match whole names."""
        return self._declare(topics, options, is_batch=False)

    def batch_handler(
        self, *topics: Topic, **options: Unpack[HandlerSettings]
    ) -> Callable[[FunctionT], FunctionT]:
        """Let a function process the records of these topics in lists of up to `batch_size`."""
        return self._declare(topics, options, is_batch=True)

    def middleware(self, function: Middleware) -> Middleware:
        """Let a function run around each handler: it gets the delivery, and a function that goes on.

        Those that were added first are outermost. Batch handlers have `batch_middleware`.
        """
        _require_middleware("middleware", function)
        self._middleware.append(function)
        return function

    def batch_middleware(self, function: BatchMiddleware) -> BatchMiddleware:
        """The same for batch handlers: it gets the deliveries of the batch."""
        _require_middleware("batch_middleware", function)
        self._batch_middleware.append(function)
        return function

    def on_startup(self, function: Hook) -> Hook:
        """Call a function before the handlers start. If it raises, the worker doesn't start."""
        require_callback("on_startup", function)
        self._startup.append(function)
        return function

    def on_shutdown(self, function: Hook) -> Hook:
        """Call a function after all handlers have ended, in reverse order; also if a function of `on_startup` has
        raised after another one has succeeded. If one raises, the others are called all the
        same, and then the worker ends with its exception. In all they may take as long as `drain_timeout`, and at least
        10 seconds."""
        require_callback("on_shutdown", function)
        self._shutdown.append(function)
        return function

    def on_error(self, function: OnError) -> OnError:
        """Call a function with the delivery and the exception when a handler raises, for error reporting."""
        require_plain("on_error", function, "two arguments, the delivery", "the exception")
        self._on_error.append(function)
        return function

    def include(self, handlers: Handlers) -> None:
        """Add the handlers of another part of the application, with its options, middleware and hooks."""
        if not isinstance(handlers, Handlers):
            raise ConfigError(f"only Handlers can be included, not {handlers!r:.80}")
        if self in handlers.parts():
            raise ConfigError("handlers can't include themselves")
        self._parts.append(handlers)

    def parts(self) -> list[Handlers]:
        """These handlers, and what they include."""
        return [
            self,
            *(handlers for part in self._parts if isinstance(part, Handlers) for handlers in part.parts()),
        ]

    def resolved(self) -> list[_Declared]:
        """All handlers, with the options that they have in common."""
        return [
            handler.within(self)
            for part in self._parts
            for handler in (part.resolved() if isinstance(part, Handlers) else [part])
        ]

    def startup_hooks(self) -> list[Hook]:
        return [hook for part in self.parts() for hook in part._startup]

    def shutdown_hooks(self) -> list[Hook]:
        """In the order in which they are called."""
        return [hook for part in self.parts() for hook in part._shutdown][::-1]

    def _declare(
        self, topics: tuple[Topic, ...], options: HandlerSettings, *, is_batch: bool
    ) -> Callable[[FunctionT], FunctionT]:
        mistakes = Mistakes()
        with mistakes:
            given = {name: value for name, value in options.items() if name != "group" or value}
            check_options(given, self.defaults, is_batch=is_batch)
        for topic in topics:
            with mistakes:
                _check_topic(topic, is_batch=is_batch)
        if not topics:
            mistakes.add('a handler needs topics: write handler("orders")')
        mistakes.raise_all()

        def declare(function: FunctionT) -> FunctionT:
            declared = _Declared(function, topics, dict(options), is_batch=is_batch)
            declared.within(self).route("-")  # so that errors are raised where the function is
            self._parts.append(declared)
            return function

        return declare


class _Declared:
    """A handler, as it was declared."""

    def __init__(
        self,
        function: Callable[..., Any],
        topics: tuple[Topic, ...],
        options: dict[str, Any],
        *,
        is_batch: bool,
        middleware: tuple[Middleware, ...] | tuple[BatchMiddleware, ...] = (),
        on_error: tuple[OnError, ...] = (),
    ) -> None:
        self.function = function
        self.topics = topics
        self.options = options
        self.is_batch = is_batch
        self.middleware = middleware
        self.on_error = on_error

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", None) or type(self.function).__name__

    def within(self, handlers: Handlers) -> _Declared:
        defaults = dict(handlers.defaults)
        if is_async(self.function):
            defaults.pop("runs_in", None)  # it is for plain functions
        around: Any = handlers._batch_middleware if self.is_batch else handlers._middleware
        return _Declared(
            self.function,
            self.topics,
            defaults | self.options,
            is_batch=self.is_batch,
            middleware=(*around, *self.middleware),
            on_error=(*handlers._on_error, *self.on_error),
        )

    def route(self, default_group: str = "") -> Route:
        options = dict(self.options)
        options["group"] = options.get("group") or default_group
        if not options["group"]:
            raise ConfigError(f'handler {self.name} has no group: write Worker(..., group="orders")')
        checked = HandlerOptions(**options)
        call = inspect_handler(self.function, is_batch=self.is_batch, runs_in=checked.runs_in)
        names = tuple(dict.fromkeys(topic for topic in self.topics if isinstance(topic, str)))
        patterns = tuple(topic for topic in self.topics if isinstance(topic, re.Pattern))
        if checked.dead_letters in names:
            raise ConfigError(
                f"handler {self.name}: dead_letters is {checked.dead_letters}, which it processes itself: "
                "its dead letters would come back forever. Choose another topic"
            )
        return Route(self.name, names, call, checked, self.is_batch, patterns, self.middleware, self.on_error)


def _check_topic(topic: object, *, is_batch: bool) -> None:
    if callable(topic):
        raise ConfigError('a handler needs topics: write @worker.handler("orders"), with the parentheses')
    if not isinstance(topic, str | re.Pattern) or not topic:
        raise ConfigError(
            f"a topic must be a name or a compiled pattern, not {topic!r:.300}"
            f"{_one_by_one(topic, is_batch=is_batch)}"
        )
    if isinstance(topic, str):
        require_topic_name("topic", topic)
    elif isinstance(topic.pattern, bytes):
        raise ConfigError(f"a pattern of topics must be of text, not of bytes: {topic!r:.300}")


def _one_by_one(topics: object, *, is_batch: bool) -> str:
    """What to write instead of a list of topics; empty for anything else."""
    if not isinstance(topics, list | tuple | set | frozenset) or not topics:
        return ""
    if not all(isinstance(topic, str) for topic in topics):
        return ": give topics one by one"
    names = sorted(topics) if isinstance(topics, set | frozenset) else topics
    written = ", ".join(f'"{name}"' for name in names)
    return f": write {'batch_handler' if is_batch else 'handler'}({written})"


def _require_middleware(what: str, function: Callable[..., Any]) -> None:
    first = "the deliveries of the batch" if what == "batch_middleware" else "the delivery"
    require_callback(what, function, f"two arguments, {first}", "the function to await to continue")
    name = getattr(function, "__qualname__", repr(function))
    if is_plain_function(function):
        raise ConfigError(
            f"{what} {name} must be an async function, not a plain one: it awaits its second argument"
        )


def routes_of(declared: Iterable[_Declared]) -> list[Route]:
    """Raises ConfigError if two handlers get the same records, or if functions can't be passed to other processes."""
    mistakes = Mistakes()
    routes: list[Route] = []
    for name, handler in named(declared):
        with mistakes:
            routes.append(replace(handler.route(), name=name))
    for route in routes:
        with mistakes:
            require_findable(route.call)
    mistakes.raise_all()
    require_separate_topics(routes)
    return routes


def require_separate_topics(routes: Iterable[Route]) -> None:
    """Raises ConfigError if two handlers get the same records."""
    seen: dict[tuple[str, str], str] = {}
    for route in routes:
        for topic in route.topics:
            other = seen.setdefault((route.group, topic), route.name)
            if other != route.name:
                raise ConfigError(
                    f"handlers {other} and {route.name} both process topic {topic} in group {route.group}: each would "
                    "get some of its records. Give one of them another group, or call both from one handler"
                )


def named(declared: Iterable[_Declared]) -> Iterator[tuple[str, _Declared]]:
    """Handlers with their names: those of the functions, numbered if several have the same."""
    count: dict[str, int] = {}
    for handler in declared:
        count[handler.name] = count.get(handler.name, 0) + 1
        yield (handler.name if count[handler.name] == 1 else f"{handler.name}-{count[handler.name]}"), handler


def with_options(declared: list[_Declared], options: Mapping[str, Mapping[str, Any]]) -> list[_Declared]:
    """Handlers with further options, by their names."""
    for name, handler in named(declared):
        handler.options.update(options.get(name, {}))
    return declared

"""Configures a worker from a TOML file and from the environment: environment over TOML over code.

    [worker]                      bootstrap_servers, group, drain_timeout, http, announce, connection options in our
                                  names or Kafka's
    [worker.defaults]             options of all handlers
    [worker.handlers.NAME]        options of one handler
    KSHARE_WORKER_<OPTION>        the first two, from the environment

An option that a handler has itself takes precedence over a default, wherever both are set.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kshare.admin.config import OPTIONS as CONNECTION_OPTIONS
from kshare.admin.config import admin_settings
from kshare.client.config import OPTIONS as CONSUMER_OPTIONS
from kshare.client.kafka_names import KAFKA_NAMES, NOT_OURS, parse_option
from kshare.errors import ConfigError
from kshare.http.endpoint import parse_listen_address
from kshare.worker.app import named, with_options
from kshare.worker.config_values import is_function, parse_text, to_option
from kshare.worker.handlers.options import (
    LONGEST_LEASE_S,
    WORKER_OPTIONS,
    HandlerOptions,
    check_connection_names,
    check_names,
)
from kshare.worker.rules.option_checks import require_number
from kshare.worker.watch.announcement import check_announce

if TYPE_CHECKING:
    from kshare.worker.worker import Worker

VARIABLE_PREFIX = "KSHARE_WORKER_"
_DEFAULTS, _HANDLERS = "defaults", "handlers"
_OF_WORKER = (*CONNECTION_OPTIONS, "group", *WORKER_OPTIONS)
_MAY_BE_NONE = (*CONNECTION_OPTIONS, "http", "announce")
_OF_HANDLERS = tuple(HandlerOptions.__dataclass_fields__)
_ANY_SERVER = "localhost:9092"
"""For checking connection options before the servers are known."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """What one source says, by option."""

    name: str
    place_of_defaults: str
    """Where they are written, for errors."""
    worker: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    handlers: dict[str, dict[str, Any]] = field(default_factory=dict)


def configure_worker(worker: Worker, file: str | Path | None, environ: Mapping[str, str]) -> None:
    """Raises ConfigError, which says where the mistake is. Values are never shown if they may be secret."""
    if not isinstance(file, str | Path | None):
        raise ConfigError(f"file must be the path of a TOML file, not {file!r:.80}")
    layers = [_read_toml(Path(file))] if file is not None else []
    for layer in [*layers, _read_environment(environ)]:
        with _in(layer.name):
            override_connection(worker, layer.worker)
        _change_defaults(worker, layer)
        _change_handlers(worker, layer)


def override_connection(worker: Worker, options: Mapping[str, Any]) -> None:
    """Replace what isn't about handlers, but about the whole worker, whichever names its options have."""
    if not options:
        return
    present = _in_our_names(worker.connection)
    if worker.bootstrap_servers is not None:
        present["bootstrap_servers"] = worker.bootstrap_servers
    present |= _in_our_names(options)
    if "group" in present:
        worker.defaults["group"] = _text("group", present.pop("group"))
    if "drain_timeout" in present:
        worker.drain_timeout = require_number(
            "drain_timeout", present.pop("drain_timeout"), 0, LONGEST_LEASE_S
        )
    if "http" in present:
        http = present.pop("http")
        if http is not None:
            parse_listen_address(http)
        worker.http = http
    worker.announce = present.pop("announce", worker.announce)
    worker.announce_url = present.pop("announce_url", worker.announce_url)
    check_announce(worker.announce, worker.announce_url)
    servers = present.pop("bootstrap_servers", None)
    admin_settings(servers or _ANY_SERVER, present)
    worker.bootstrap_servers, worker.connection = servers, present


def _in_our_names(options: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in options.items():
        if name not in _OF_HANDLERS and name not in _OF_WORKER:
            check_connection_names([name])
        if name in _OF_HANDLERS and name not in _OF_WORKER:
            raise ConfigError(f"{name} is an option of handlers: write it into [worker.{_DEFAULTS}]")
        for option, translated in parse_option(name, value, options, _OF_WORKER, CONSUMER_OPTIONS).items():
            if option not in _OF_WORKER:
                raise ConfigError(f"{name} is an option of consumers, not of workers: leave it out")
            found[option] = translated
    return found


def _change_defaults(worker: Worker, layer: _Layer) -> None:
    with _in(layer.place_of_defaults):
        changed = worker.defaults | {
            name: to_option(name, value, worker.defaults.get(name)) for name, value in layer.defaults.items()
        }
        HandlerOptions(**changed)
    worker.defaults = changed


def _change_handlers(worker: Worker, layer: _Layer) -> None:
    present = dict(named(with_options(worker.resolved(), worker.overrides)))
    for handler, options in layer.handlers.items():
        with _in(f"{layer.name}, [worker.{_HANDLERS}.{handler}]"):
            if handler not in present:
                raise ConfigError(f"there is no handler {handler}{_hint(handler, present)}")
            check_names(options, is_batch=present[handler].is_batch)
            own = present[handler].options
            changes = {name: to_option(name, value, own.get(name)) for name, value in options.items()}
            HandlerOptions(**(own | changes))
            worker.overrides[handler] = worker.overrides.get(handler, {}) | changes


# --- TOML


def _read_toml(path: Path) -> _Layer:
    try:
        text = path.read_text(encoding="utf-8")
        whole = tomllib.loads(text)
    except OSError as problem:
        raise ConfigError(f"can't read {path}: {problem.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise ConfigError(f"{path} is not valid TOML: {_where(problem)}") from None
    with _in(str(path)):
        if not isinstance(whole.get("worker"), dict):
            close = get_close_matches("worker", whole, 1)
            hint = f"did you mean that by [{close[0]}]?" if close else "its options are expected there"
            raise ConfigError(f"there is no table [worker]: {hint}")
        table: dict[str, Any] = whole["worker"]
        defaults, handlers = _table(table, _DEFAULTS), _table(table, _HANDLERS)
        others = {name: value for name, value in table.items() if name not in (_DEFAULTS, _HANDLERS)}
        with _in(f"[worker.{_DEFAULTS}]"):
            check_names(defaults)
            if "group" in defaults:
                raise ConfigError("group is set in [worker]")
        options = {
            name: to_option(name, value, None) if name in _MAY_BE_NONE else value
            for name, value in _flat(others)
        }
        return _Layer(
            str(path),
            f"{path}, [worker.{_DEFAULTS}]",
            options,
            defaults,
            {name: _table(handlers, name) for name in handlers},
        )


def _where(problem: UnicodeDecodeError | tomllib.TOMLDecodeError) -> str:
    return f"byte {problem.start}" if isinstance(problem, UnicodeDecodeError) else str(problem)


def _table(within: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = within.get(name, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{name} must be a table, not {type(found).__name__}")
    return found


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Kafka's names have dots, which TOML takes for tables unless they are quoted."""
    for name, value in table.items():
        whole = f"{before}{name}"
        if not isinstance(value, dict):
            yield whole, value
        elif any(one.startswith(f"{whole}.") for one in (*KAFKA_NAMES, *NOT_OURS)):
            yield from _flat(value, f"{whole}.")
        else:
            raise ConfigError(f"there is no table [worker.{whole}]" + _hint(whole, (_DEFAULTS, _HANDLERS)))


# --- the environment


def _read_environment(environ: Mapping[str, str]) -> _Layer:
    layer = _Layer("the environment", "the environment")
    known = {
        f"{VARIABLE_PREFIX}{name.upper()}": name
        for name in (*_OF_WORKER, *_OF_HANDLERS)
        if not is_function(name)
    }
    for variable, text in environ.items():
        if not variable.startswith(VARIABLE_PREFIX):
            continue
        if variable not in known:
            raise ConfigError(f"there is no option {variable}{_hint(variable, known)}")
        name = known[variable]
        place = layer.worker if name in _OF_WORKER else layer.defaults
        with _in(variable):
            place[name] = parse_text(name, text)
            if name in _MAY_BE_NONE:
                place[name] = to_option(name, place[name], None)
    return layer


# --- errors


@contextmanager
def _in(place: str) -> Iterator[None]:
    """Let errors begin with where the mistake is."""
    try:
        yield
    except ConfigError as problem:
        raise ConfigError(f"{place}: {problem}") from None


def _hint(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = get_close_matches(name, names, 1)
    return f"; did you mean {close[0]}?" if close else f"; there are: {', '.join(names) or 'none'}"


def _text(option: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{option} must be a name, not {value!r}")
    return value

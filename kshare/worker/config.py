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
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kshare.admin.config import OPTIONS as CONNECTION_OPTIONS
from kshare.client.config import OPTIONS as CONSUMER_OPTIONS
from kshare.client.given_options import attempted_by
from kshare.client.kafka_names import KAFKA_NAMES, parse_option
from kshare.errors import ConfigError
from kshare.http.endpoint import parse_listen_address
from kshare.net.settings import NetSettings
from kshare.options.checks import require_number
from kshare.options.mistakes import Mistakes
from kshare.options.refusals import refused_names
from kshare.wording import nearest_name, suggestion
from kshare.worker.app import named, with_options
from kshare.worker.config_values import is_function, parse_text, to_option
from kshare.worker.handlers.options import (
    LONGEST_LEASE_S,
    WORKER_OPTIONS,
    HandlerOptions,
    check_connection_names,
    check_names,
    checkable,
)
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
    attempted: set[str] = field(default_factory=set)
    """Options that are given with a mistake. They aren't missing."""


def configure_worker(worker: Worker, file: str | Path | None, environ: Mapping[str, str]) -> None:
    """Raises ConfigError, which says where each mistake is. Values are never shown if they may be secret."""
    if not isinstance(file, str | Path | None):
        raise ConfigError(f"file must be the path of a TOML file, not {file!r:.80}")
    mistakes = Mistakes()
    layers: list[_Layer] = []
    attempted: Collection[str] = _OF_WORKER if file is not None else ()
    if file is not None:
        with mistakes:
            layers.append(_read_toml(Path(file), mistakes))
            attempted = ()
    layers.append(_read_environment(environ, mistakes))
    told: set[str] = set()
    for layer in layers:
        try:
            override_connection(worker, layer.worker, [*attempted, *layer.attempted])
        except ConfigError as error:
            # Those of options in code are found with each layer.
            mistakes.add(*(f"{layer.name}: {mistake}" for mistake in error.mistakes if mistake not in told))
            told.update(error.mistakes)
            attempted = _OF_WORKER  # further layers lack what this one says
        _change_defaults(worker, layer, mistakes)
        _change_handlers(worker, layer, mistakes)
    mistakes.raise_all()


def override_connection(worker: Worker, options: Mapping[str, Any], attempted: Collection[str] = ()) -> None:
    """Replace what isn't about handlers, but about the whole worker, whichever names its options have.

    Raises ConfigError with all mistakes. Options that the user has tried to give elsewhere aren't missing.
    """
    if not options:
        return
    mistakes = Mistakes()
    present, doubtful = _in_our_names(worker.connection, mistakes)
    if worker.bootstrap_servers is not None:
        present["bootstrap_servers"] = worker.bootstrap_servers
    changes, meant = _in_our_names(options, mistakes)
    present |= changes
    if "group" in present:
        with mistakes:
            worker.defaults["group"] = _text("group", present.pop("group"))
    if "drain_timeout" in present:
        with mistakes:
            worker.drain_timeout = require_number(
                "drain_timeout", present.pop("drain_timeout"), 0, LONGEST_LEASE_S
            )
    http = present.pop("http", worker.http)
    if http is not None:
        with mistakes:
            parse_listen_address(http)
    announce = present.pop("announce", worker.announce)
    announce_url = present.pop("announce_url", worker.announce_url)
    with mistakes:
        check_announce(announce, announce_url)
    servers = present.pop("bootstrap_servers", None)
    with mistakes:
        NetSettings.parse_given(servers or _ANY_SERVER, present, {*attempted, *doubtful, *meant})
    mistakes.raise_all()
    worker.http, worker.announce, worker.announce_url = http, announce, announce_url
    worker.bootstrap_servers, worker.connection = servers, present


def _in_our_names(options: Mapping[str, Any], mistakes: Mistakes) -> tuple[dict[str, Any], set[str]]:
    """What could be translated, and the options that are meant by what couldn't."""
    found: dict[str, Any] = {}
    meant: set[str] = set()

    def parse(name: str, value: Any) -> dict[str, Any]:
        if name not in _OF_HANDLERS and name not in _OF_WORKER:
            check_connection_names([name])
        if name in _OF_HANDLERS and name not in _OF_WORKER:
            raise ConfigError(f"{name} is an option of handlers: write it into [worker.{_DEFAULTS}]")
        ours = parse_option(name, value, options, _OF_WORKER, CONSUMER_OPTIONS, "handler")
        if not ours.keys() <= set(_OF_WORKER):
            raise ConfigError(f"{name} is an option of consumers, not of workers: leave it out")
        return ours

    for name, value in options.items():
        try:
            found |= parse(name, value)
        except ConfigError as error:
            mistakes.add(*error.mistakes)
            meant.update(attempted_by(name, value, parse, _OF_WORKER))
    return found, meant


def _change_defaults(worker: Worker, layer: _Layer, mistakes: Mistakes) -> None:
    wrong = Mistakes()
    changes = _to_options(layer.defaults, worker.defaults, wrong)
    with wrong:
        HandlerOptions(**checkable(worker.defaults | changes, layer.defaults.keys() - changes.keys()))
    with mistakes.at(layer.place_of_defaults):
        wrong.raise_all()
        worker.defaults = worker.defaults | changes


def _change_handlers(worker: Worker, layer: _Layer, mistakes: Mistakes) -> None:
    present = dict(named(with_options(worker.resolved(), worker.overrides)))
    for handler, options in layer.handlers.items():
        with mistakes.at(f"{layer.name}, [worker.{_HANDLERS}.{handler}]"):
            if handler not in present:
                raise ConfigError(f"there is no handler {handler}{_hint(handler, present)}")
            changes = _changes_of_handler(present[handler].options, options, present[handler].is_batch)
            worker.overrides[handler] = worker.overrides.get(handler, {}) | changes


def _changes_of_handler(own: Mapping[str, Any], options: Mapping[str, Any], is_batch: bool) -> dict[str, Any]:
    mistakes = Mistakes()
    with mistakes:
        check_names(options, is_batch=is_batch)
    changes = _to_options(checkable(options, is_batch=is_batch), own, mistakes)
    with mistakes:
        HandlerOptions(**checkable(dict(own) | changes, options.keys() - changes.keys()))
    mistakes.raise_all()
    return changes


def _to_options(options: Mapping[str, Any], present: Mapping[str, Any], mistakes: Mistakes) -> dict[str, Any]:
    """The values of options of handlers, without those that are wrong."""
    changes: dict[str, Any] = {}
    for name, value in options.items():
        with mistakes:
            changes[name] = to_option(name, value, present.get(name))
    return changes


# --- TOML


def _read_toml(path: Path, mistakes: Mistakes) -> _Layer:
    """What is right of the file, so that it can be checked further."""
    try:
        text = path.read_text(encoding="utf-8")
        whole = tomllib.loads(text)
    except OSError as problem:
        raise ConfigError(f"can't read {path}: {problem.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise ConfigError(f"{path} is not valid TOML: {_where(problem)}") from None
    layer = _Layer(str(path), f"{path}, [worker.{_DEFAULTS}]")
    wrong = Mistakes()
    table = whole.get("worker")
    if not isinstance(table, dict):
        near = nearest_name("worker", whole)
        hint = f"did you mean that by [{near}]?" if near else "its options are expected there"
        wrong.add(f"there is no table [worker]: {hint}")
        table = {}
    for name in whole:
        near = nearest_name(name, (_DEFAULTS, _HANDLERS)) if name != "worker" else ""
        if near:
            wrong.add(f"there is no table [{name}]: did you mean [worker.{near}]?")
    defaults, handlers = _table(table, _DEFAULTS, wrong), _table(table, _HANDLERS, wrong)
    with wrong.at(f"[worker.{_DEFAULTS}]"):
        check_names(defaults)
    if "group" in defaults:
        wrong.add(f"[worker.{_DEFAULTS}]: group is set in [worker]")
    layer.defaults.update((name, value) for name, value in checkable(defaults).items() if name != "group")
    layer.handlers.update((name, _table(handlers, name, wrong)) for name in handlers)
    others = {name: value for name, value in table.items() if name not in (_DEFAULTS, _HANDLERS)}
    for name, value in _flat(others, wrong):
        layer.attempted.add(name)
        with wrong:
            layer.worker[name] = to_option(name, value, None) if name in _MAY_BE_NONE else value
            layer.attempted.remove(name)
    with mistakes.at(str(path)):
        wrong.raise_all()
    return layer


def _where(problem: UnicodeDecodeError | tomllib.TOMLDecodeError) -> str:
    return f"byte {problem.start}" if isinstance(problem, UnicodeDecodeError) else str(problem)


def _table(within: Mapping[str, Any], name: str, mistakes: Mistakes) -> dict[str, Any]:
    found = within.get(name, {})
    if isinstance(found, dict):
        return found
    mistakes.add(f"{name} must be a table, not {type(found).__name__}")
    return {}


def _flat(table: Mapping[str, Any], mistakes: Mistakes, before: str = "") -> Iterator[tuple[str, Any]]:
    """Kafka's names have dots, which TOML takes for tables unless they are quoted."""
    for name, value in table.items():
        whole = f"{before}{name}"
        if not isinstance(value, dict):
            yield whole, value
        elif not nearest_name(whole, (_DEFAULTS, _HANDLERS)) and any(
            option.startswith(f"{whole}.") for option in (*KAFKA_NAMES, *refused_names("handler"))
        ):
            yield from _flat(value, mistakes, f"{whole}.")
        else:
            mistakes.add(f"there is no table [worker.{whole}]" + _hint(whole, (_DEFAULTS, _HANDLERS)))


# --- the environment


def _read_environment(environ: Mapping[str, str], mistakes: Mistakes) -> _Layer:
    """What is right of it, so that it can be checked further."""
    layer = _Layer("the environment", "the environment")
    known = {
        f"{VARIABLE_PREFIX}{name.upper()}": name
        for name in (*_OF_WORKER, *_OF_HANDLERS)
        if not is_function(name)
    }
    for variable, text in environ.items():
        if not variable.startswith(VARIABLE_PREFIX):
            continue
        name = known.get(variable) or known.get(nearest_name(variable, known), "")
        layer.attempted.add(name)
        if variable not in known:
            mistakes.add(f"there is no option {variable}{_hint(variable, known)}")
            continue
        with mistakes.at(variable):
            value = parse_text(name, text)
            place = layer.worker if name in _OF_WORKER else layer.defaults
            place[name] = to_option(name, value, None) if name in _MAY_BE_NONE else value
            layer.attempted.remove(name)
    return layer


# --- errors


def _hint(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    return f"; {suggestion(name, names) or 'there are: ' + (', '.join(names) or 'none')}"


def _text(option: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{option} must be a name, not {value!r}")
    return value

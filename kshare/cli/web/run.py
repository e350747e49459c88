"""Runs `kshare web`: checks its options, and starts the console, with the demo if it is wanted."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from getpass import GetPassWarning, getpass
from pathlib import Path
from typing import Any

from kshare.cli.cluster.connection import Cluster
from kshare.cli.terminal.failure import Failure, Misuse, misuse
from kshare.cli.terminal.standard_error import log_handler
from kshare.cli.terminal.stop_signals import stop_signals
from kshare.errors import ConfigError
from kshare.http.endpoint import parse_listen_address

log = logging.getLogger("kshare.web")

SHORTEST_PASSWORD = 8
_RIGHTS = {"r": False, "c": True}


def run_web(
    server: str | None,
    properties: Path | None,
    listen: str,
    options: Mapping[str, Any],
    *,
    is_demo: bool,
    is_registry_visible: bool,
) -> None:
    """Returns after Ctrl-C. `is_registry_visible`: the registry's URL is in the command line."""
    try:
        from kshare.web.config import WebConfig
        from kshare.web.connections import raise_limit
        from kshare.web.rare_collections import rare_collections
        from kshare.web.registry_url import has_password
        from kshare.web.server import serve
    except ModuleNotFoundError as error:
        raise Failure(
            f"the console needs {error.name}: pip install 'kshare[web]' (in a clone: '.[web]')"
        ) from None
    if is_demo and (server or properties or options["worker_topic"]):
        raise Misuse(
            "--demo runs a broker and a worker of its own: leave --bootstrap-server, --command-config and "
            "--worker-topic out"
        )
    host, port = _address(listen)
    raise_limit()
    logging.basicConfig(handlers=[log_handler("%(message)s")], level=logging.WARNING)
    with _demo() if is_demo else _cluster(server, properties) as (cluster, found):
        with misuse():
            config = WebConfig(cluster, host, port, **{**options, **found})
            _ = config.net  # which checks the options
        if is_registry_visible and has_password(config.schema_registry or ""):
            log.warning(
                "--schema-registry has a password, which other users of this machine can see: set "
                "KSHARE_SCHEMA_REGISTRY instead"
            )
        with rare_collections(), stop_signals() as signals:

            def on_ready(url: str, stop: Callable[[], None]) -> None:
                sys.stdout.write(f"kshare web: {url}\n")
                sys.stdout.flush()
                signals.then(stop)

            serve(config, on_ready)


def show_user_line(name: str) -> None:
    """Without a terminal, the responses are two lines of stdin: the rights, and the password."""
    from kshare.web.users import require_user_name, user_line

    try:
        require_user_name(name)
    except ConfigError as error:
        raise Misuse(f"--make-user: {error}") from None
    rights = ""
    while rights not in _RIGHTS:
        rights = _asked("May the user only read (r), or also make changes (c)? ").strip().lower()[:1]
    password = _password("Password: ")
    is_hidden = password is not None
    if password is None:
        password = _asked("").removesuffix("\n")
    if len(password) < SHORTEST_PASSWORD:
        raise Failure(f"the password is too short: at least {SHORTEST_PASSWORD} characters")
    if is_hidden and _password("Again: ") != password:
        raise Failure("the passwords differ")
    sys.stdout.write(user_line(name, password, may_change=_RIGHTS[rights]) + "\n")


def _password(question: str) -> str | None:
    """None if there is no terminal on which it can be typed without being seen."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", GetPassWarning)
        try:
            return getpass(question, sys.stderr)
        except GetPassWarning:
            return None


def _asked(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise Failure("no response: the rights of the user and a password are needed, each on a line")
    return line


@contextmanager
def _demo() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    from kshare.web.demo import WORKER_HOST, WORKER_TOPIC, Demo

    with Demo() as demo:
        options = {"worker_topic": WORKER_TOPIC, "worker_hosts": (WORKER_HOST,)}
        yield {"bootstrap.servers": demo.bootstrap}, options


@contextmanager
def _cluster(server: str | None, properties: Path | None) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    cluster = Cluster(server, properties)
    _ = cluster.settings  # which checks the options, and names them as the user does
    yield cluster.options, {}


def _address(listen: str) -> tuple[str, int]:
    try:
        return parse_listen_address(listen, "--listen")
    except ConfigError:
        raise Misuse(f"--listen {listen}: write HOST:PORT, such as 127.0.0.1:8932") from None

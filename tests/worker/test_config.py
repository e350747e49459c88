"""Configuration of workers: which source goes first, types, and errors that say where the mistake is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kshare import ConfigError
from kshare.worker import Adaptive, Breaker, Exponential, Handlers, Retry, RetryTopics, Worker
from kshare.worker.config import override_connection


def make(**options: Any) -> Worker:
    worker = Worker("code:1", group="orders", **options)

    @worker.handler("orders")
    async def ship(value: bytes) -> None: ...

    @worker.handler("parcels", concurrency=3, retry=Retry(attempts=2, never=(KeyError,)))
    async def pack(value: bytes) -> None: ...

    return worker


def options(worker: Worker, handler: str = "ship") -> Any:
    (found,) = [route.options for route in worker.routes() if route.name == handler]
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shop.toml"


def configured(file: Path, text: str, environ: Mapping[str, str] | None = None, **given: Any) -> Worker:
    worker = make(**given)
    file.write_text(text)
    worker.configure(file, environ or {})
    return worker


def refused(file: Path, text: str, environ: Mapping[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        configured(file, text, environ)
    return str(caught.value).replace(str(file), "shop.toml")


def test_environment_goes_before_the_file_and_the_file_before_code(file: Path) -> None:
    text = """
        [worker]
        bootstrap_servers = ["file:1", "file:2"]
        client_id = "file"
        drain_timeout = 5
        http = "127.0.0.1:8080"
        [worker.defaults]
        concurrency = 20
        time_limit = 60
    """
    environ = {
        "KSHARE_WORKER_CLIENT_ID": "environment",
        "KSHARE_WORKER_TIME_LIMIT": "90",
        "KSHARE_WORKER_GROUP": "shippers",
        "OTHER": "ignored",
    }
    worker = configured(file, text, environ, concurrency=7, client_id="code", connect_timeout=1)
    assert worker.bootstrap_servers == ["file:1", "file:2"]
    assert worker.connection == {"client_id": "environment", "connect_timeout": 1}
    assert (worker.drain_timeout, worker.http) == (5, "127.0.0.1:8080")
    found = options(worker)
    assert (found.concurrency, found.time_limit, found.group) == (20, 90, "shippers")


def test_http_is_switched_off(file: Path) -> None:
    on = '[worker]\nhttp = "127.0.0.1:8080"'
    assert configured(file, "[worker]\nhttp = false", http="127.0.0.1:8080").http is None
    for text in ("false", ""):
        assert configured(file, on, {"KSHARE_WORKER_HTTP": text}).http is None
    assert "http must be an address" in refused(file, "[worker]\nhttp = true")


def test_an_option_of_a_handler_goes_before_defaults(file: Path) -> None:
    worker = configured(
        file,
        "[worker.handlers.ship]\nconcurrency = 50",
        {"KSHARE_WORKER_CONCURRENCY": "20"},
    )
    assert options(worker, "ship").concurrency == 50
    assert options(worker, "pack").concurrency == 3


def test_handlers_of_included_parts_are_configured_and_the_part_stays_as_it_was(file: Path) -> None:
    part = Handlers(concurrency=4)

    @part.handler("invoices")
    async def bill(value: bytes) -> None: ...

    worker = make()
    worker.include(part)
    file.write_text("[worker.handlers.bill]\nconcurrency = 9")
    worker.configure(file, {})
    assert options(worker, "bill").concurrency == 9
    assert part.resolved()[0].options["concurrency"] == 4


def test_tables_change_parts_of_an_option(file: Path) -> None:
    text = """
        [worker]
        [worker.defaults]
        breaker = false
        retry_topics = {tiers = [10, 60]}
        [worker.handlers.pack.retry]
        attempts = 9
        delay = {first = 2, longest = 8}
        [worker.handlers.ship]
        retry.delay = [1, 2]
        breaker.probe_after = 7
    """
    worker = configured(file, text)
    pack, ship = options(worker, "pack"), options(worker, "ship")
    assert pack.retry == Retry(attempts=9, never=(KeyError,), delay=Exponential(first=2, longest=8))
    assert pack.breaker is None
    assert pack.retry_topics == RetryTopics(tiers=(10, 60))
    assert ship.retry == Retry(delay=(1, 2))
    assert ship.breaker == Breaker(probe_after=7)


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("CONCURRENCY", "12", 12),
        ("CONCURRENCY", "{most = 50}", Adaptive(most=50)),
        ("TIME_LIMIT", "1.5", 1.5),
        ("DEAD_LETTERS", "dead", "dead"),
        ("DEAD_LETTERS", "", None),
        ("RATE_LIMIT", "100", 100.0),
        ("ORDER", "key", "key"),
        ("BREAKER", "false", None),
        ("RETRY", "{attempts = 2, delay = 3}", Retry(attempts=2, delay=3)),
        ("RETRY_TOPICS", "true", RetryTopics()),
    ],
)
def test_variables_have_the_type_of_their_option(variable: str, text: str, expected: object) -> None:
    worker = make(dead_letters="from-code")
    worker.configure(environ={f"KSHARE_WORKER_{variable}": text})
    assert getattr(options(worker), variable.lower()) == expected


def test_options_that_need_each_other_may_come_in_any_order() -> None:
    worker = make()
    worker.configure(environ={"KSHARE_WORKER_MOVE_RUNS": "true", "KSHARE_WORKER_RETRY_TOPICS": "true"})
    assert options(worker).move_runs


def test_os_environ_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSHARE_WORKER_DRAIN_TIMEOUT", "3")
    worker = make()
    worker.configure()
    assert worker.drain_timeout == 3


def test_connection_options_may_have_kafkas_names(file: Path) -> None:
    text = """
        [worker]
        security.protocol = "SASL_SSL"
        "sasl.mechanism" = "PLAIN"
        sasl.username = "shop"
        sasl.password = "hush"
        request.timeout.ms = 500
    """
    worker = configured(file, text, {"KSHARE_WORKER_USERNAME": "other"}, **{"client.id": "code"})
    assert worker.connection == {
        "client_id": "code",
        "tls": True,
        "sasl_mechanism": "PLAIN",
        "username": "other",
        "password": "hush",
        "request_timeout": 0.5,
    }


def test_the_command_line_replaces_connection_options() -> None:
    given: Any = {"bootstrap.servers": "code:1"}
    worker = Worker(group="orders", client_id="code", **given)
    override_connection(worker, {"bootstrap.servers": "line:1"})
    assert (worker.bootstrap_servers, worker.connection) == ("line:1", {"client_id": "code"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[worker", "shop.toml is not valid TOML"),
        ("[wroker]", "shop.toml: there is no table [worker]"),
        (
            "[worker]\nbootstrap_server = 'a:1'",
            "there is no option 'bootstrap_server'; did you mean bootstrap_servers?",
        ),
        (
            "[worker]\nconcurrency = 5",
            "concurrency is an option of handlers: write it into [worker.defaults]",
        ),
        ("[worker]\nmax_records = 5", "max_records is an option of consumers"),
        ("[worker]\nenable_auto_commit = true", "enable_auto_commit: share groups have no offsets"),
        ("[worker]\ndrain_timeout = -1", "drain_timeout must be a number from 0 to 86,400"),
        ("[worker]\ntoken = 'x'", "token is a function: set it in code"),
        ("[worker.handler.ship]", "there is no table [worker.handler]; did you mean handlers?"),
        ("[worker.default]\ntime_limit = 5", "there is no table [worker.default]; did you mean defaults?"),
        (
            "[worker]\n[handlers.ship]\ntime_limit = 5",
            "there is no table [handlers]: did you mean [worker.handlers]?",
        ),
        ("[worker.defaults]\ngroup = 'a'", "group is set in [worker]"),
        (
            "[worker.defaults]\nconcurency = 5",
            "[worker.defaults]: there is no option 'concurency'; did you mean concurrency?",
        ),
        ("[worker.defaults]\nonly = 'x'", "[worker.defaults]: only is a function: set it in code"),
        ("[worker.defaults]\nconcurrency = '5'", "[worker.defaults]: concurrency must be a whole number"),
        ("[worker.defaults]\nretry = 3", "retry must be a table such as {attempts = 3, delay = 10}, not 3"),
        ("[worker.defaults]\nretry.atempts = 3", "retry has no atempts: did you mean attempts?"),
        (
            "[worker.defaults]\nretry.never = ['KeyError']",
            "retry.never needs exception classes: set it in code",
        ),
        ("[worker.defaults]\nretry.attempts = 0", "attempts must be a whole number above 0, not 0"),
        ("[worker.defaults]\nretry.max_age = 'x'", "max_age must be a positive number of seconds"),
        (
            "[worker.handlers.shipp]\nconcurrency = 5",
            "shop.toml, [worker.handlers.shipp]: there is no handler shipp; did you mean ship?",
        ),
        ("[worker.handlers.zzz]", "there is no handler zzz; there are: pack, ship"),
        ("[worker.handlers.ship]\nconcurrency = 0", "[worker.handlers.ship]: concurrency must be"),
    ],
)
def test_mistakes_in_files_are_located(file: Path, text: str, said: str) -> None:
    assert said in refused(file, text)


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        (
            "CONCURENCY",
            "5",
            "there is no option KSHARE_WORKER_CONCURENCY; did you mean KSHARE_WORKER_CONCURRENCY?",
        ),
        ("CONCURRENCY", "five", "KSHARE_WORKER_CONCURRENCY: must be a whole number, or a table"),
        ("PRIORITY", "high", "KSHARE_WORKER_PRIORITY: must be a whole number, not 'high'"),
        ("CONCURRENCY", "0", "the environment: concurrency must be a whole number"),
        ("TLS", "maybe", "KSHARE_WORKER_TLS: must be true or false, not 'maybe'"),
        ("RETRY", "3 times", "KSHARE_WORKER_RETRY: must be a table such as {attempts = 3, delay = 10}"),
        ("ONLY", "x", "there is no option KSHARE_WORKER_ONLY"),
        (
            "SASL_MECHANISM",
            "PLAINN",
            "the environment: sasl_mechanism 'PLAINN' is unknown: did you mean 'PLAIN'?",
        ),
    ],
)
def test_mistakes_in_variables_are_located(variable: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make().configure(environ={f"KSHARE_WORKER_{variable}": text})
    assert said in str(caught.value)


def test_all_mistakes_of_a_file_and_the_environment_are_told_at_once(file: Path) -> None:
    text = """
        [worker]
        bootstrap_servers = "file"
        sasl_mechanism = "PLAIN"
        username = "ann"
        password = ""
        drain_timeout = -1
        enable_auto_commit = true
        [worker.defaults]
        concurency = 5
        max_held = 0
        retry = {atempts = 3, delay = -1}
        [worker.handlers.shipp]
        [worker.handlers.pack]
        time_limit = 0
        batch_size = 0
        order = "topic"
        [worker.handlrs]
    """
    environ = {
        "KSHARE_WORKER_PASSWORD": "hunter2",
        "KSHARE_WORKER_PRIORITY": "high",
        "KSHARE_WORKER_TLSS": "true",
        "KSHARE_WORKER_CA_FILE": "/ca.pem",  # that TLS is off follows from the mistake before
        "KSHARE_WORKER_MAX_PINNED": "2",
    }
    said = refused(file, text, environ)
    assert "hunter2" not in said
    defaults, pack = "shop.toml, [worker.defaults]: ", "shop.toml, [worker.handlers.pack]: "
    first, *lines = said.splitlines()
    assert first == f"{len(lines)} mistakes in the configuration:"
    assert [line.removeprefix("- ") for line in lines] == [
        "shop.toml: [worker.defaults]: there is no option 'concurency'; did you mean concurrency?",
        "shop.toml: there is no table [worker.handlrs]; did you mean handlers?",
        "KSHARE_WORKER_PRIORITY: must be a whole number, not 'high'",
        "there is no option KSHARE_WORKER_TLSS; did you mean KSHARE_WORKER_TLS?",
        "shop.toml: enable_auto_commit: share groups have no offsets to commit: each record is acknowledged "
        "separately",
        "shop.toml: drain_timeout must be a number from 0 to 86,400, not -1",
        "shop.toml: PLAIN needs password, a non-empty string",
        "shop.toml: 'file' has no port: write file:9092",
        f"{defaults}retry has no atempts: did you mean attempts?",
        f"{defaults}a delay must be between 0 and 86,400 seconds, not -1",
        f"{defaults}max_held must be a whole number from 1 to 1,000,000, not 0",
        "shop.toml, [worker.handlers.shipp]: there is no handler shipp; did you mean ship?",
        f"{pack}batch_size is for batch handlers: write batch_handler, or leave it out",
        f"{pack}time_limit must be a positive number of seconds, at most 86,400, not 0",
        f'{pack}order must be "none", "key" or a function of the record, not \'topic\'',
        "the environment: max_pinned must be a number from 0.001 to 1, not 2.0",
    ]


def test_mistakes_of_code_are_told_once(file: Path) -> None:
    kafkas: dict[str, Any] = {"request.timeout.ms": "soon"}
    worker = make(**kafkas)
    file.write_text("[worker]\nclient_id = 'file'")
    with pytest.raises(ConfigError) as caught:
        worker.configure(file, {"KSHARE_WORKER_CLIENT_ID": "environment"})
    assert caught.value.mistakes == (f"{file}: request.timeout.ms: 'soon' isn't a whole number",)


def test_what_an_unreadable_file_says_is_not_missing(tmp_path: Path) -> None:
    environ = {"KSHARE_WORKER_PASSWORD": "hunter2", "KSHARE_WORKER_PRIORITY": "high"}
    with pytest.raises(ConfigError) as caught:
        make().configure(tmp_path / "nothing.toml", environ)
    priority, unreadable = sorted(caught.value.mistakes)
    assert priority.startswith("KSHARE_WORKER_PRIORITY: ")
    assert unreadable.startswith("can't read ")


@pytest.mark.parametrize("variable", ["PASSWORD", "KEY_PASSWORD"])
def test_secrets_are_not_in_errors(variable: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make().configure(environ={f"KSHARE_WORKER_{variable}": "hush"})
    assert "hush" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"can't read .*nothing\.toml: No such file"):
        make().configure(tmp_path / "nothing.toml", {})


def test_options_of_batches_are_refused_for_handlers_of_single_records(file: Path) -> None:
    said = refused(file, "[worker.handlers.ship]\nbatch_size = 5")
    assert said == (
        "shop.toml, [worker.handlers.ship]: batch_size is for batch handlers: write batch_handler, or leave it out"
    )
    assert configured(file, "[worker.defaults]\nbatch_size = 5").defaults["batch_size"] == 5

"""Type checkers and editors understand the public options: mypy, pyright, and pyright's language server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.language_server import LanguageServer
from tools.options import BROKER, CLIENT, CONSUMER, Option

ROOT = Path(__file__).parents[1]
Findings = tuple[set[int], dict[int, str]]
"""The lines with errors, and the types revealed by line."""

CALLS = """
import json
import ssl
from typing import Any

import kshare.sync
from kshare import AdminClient, ClientOptions, ConsumerOptions, DeserializerContext, ShareConsumer
from kshare.testing import Broker, ManualClock

# --- four kinds of records

plain = ShareConsumer("a:1", group="g", topics=["t"])
keyed = ShareConsumer("a:1", group="g", topics=["t"], key_deserializer=bytes.hex)
valued = ShareConsumer("a:1", group="g", topics=["t"], value_deserializer=lambda data: data.decode())
both = ShareConsumer("a:1", group="g", topics=["t"], key_deserializer=bytes.hex, value_deserializer=int)


def titled(data: bytes, context: DeserializerContext) -> str:
    return f"{context.topic}: {data.decode()}"


async def fetched(data: bytes) -> int:
    return int(data)


async def fetched_by_topic(data: bytes, context: DeserializerContext) -> int:
    return int(data)


async def other_loops() -> None:
    async for a in ShareConsumer("a:1", group="g", topics=["t"], value_deserializer=titled):
        reveal_type(a)  # is ReadRecord[bytes | None, str | None]
    async for b in ShareConsumer("a:1", group="g", topics=["t"], value_deserializer=fetched):
        reveal_type(b)  # is ReadRecord[bytes | None, int | None]
    async for c in ShareConsumer("a:1", group="g", topics=["t"], value_deserializer=fetched_by_topic):
        reveal_type(c)  # is ReadRecord[bytes | None, int | None]
    async for d in ShareConsumer("a:1", group="g", topics=["t"], key_deserializer=fetched):
        reveal_type(d)  # is ReadRecord[int | None, bytes | None]
    async for e in ShareConsumer(
        "a:1", group="g", topics=["t"], key_deserializer=titled, value_deserializer=fetched
    ):
        reveal_type(e)  # is ReadRecord[str | None, int | None]
    async for f in ShareConsumer(
        "a:1", group="g", topics=["t"], key_deserializer=fetched_by_topic, value_deserializer=bytes.hex
    ):
        reveal_type(f)  # is ReadRecord[int | None, str | None]
    async for g in ShareConsumer(
        "a:1", group="g", topics=["t"], key_deserializer=fetched_by_topic, value_deserializer=fetched
    ):
        reveal_type(g)  # is ReadRecord[int | None, int | None]
    async for h in ShareConsumer("a:1", group="g", topics=["t"], value_deserializer=json.loads):
        reveal_type(h)  # is ReadRecord[bytes | None, Any | None]
    for i in kshare.sync.ShareConsumer("a:1", group="g", topics=["t"], value_deserializer=fetched_by_topic):
        reveal_type(i)  # is ReadRecord[bytes | None, int | None]


async def loops() -> None:
    async for a in plain:
        reveal_type(a)  # is ShareRecord
    async for b in keyed:
        reveal_type(b)  # is ReadRecord[str | None, bytes | None]
    async for c in valued:
        reveal_type(c)  # is ReadRecord[bytes | None, str | None]
    async for d in both:
        reveal_type(d)  # is ReadRecord[str | None, int | None]
        reveal_type(d.key)  # is str | None
        reveal_type(d.value)  # is int | None
    async for e in plain.batches():
        reveal_type(e)  # is ShareBatch[ShareRecord]
    async for f in keyed.batches():
        reveal_type(f)  # is ShareBatch[ReadRecord[str | None, bytes | None]]
    async for g in valued.batches():
        reveal_type(g)  # is ShareBatch[ReadRecord[bytes | None, str | None]]
    async for h in both.batches():
        reveal_type(h)  # is ShareBatch[ReadRecord[str | None, int | None]]
    reveal_type(await both.next_batch())  # is ShareBatch[ReadRecord[str | None, int | None]]
    async with valued as opened:
        reveal_type(opened)  # is ShareConsumer[ReadRecord[bytes | None, str | None]]


sync_plain = kshare.sync.ShareConsumer("a:1", group="g", topics=["t"])
sync_keyed = kshare.sync.ShareConsumer("a:1", group="g", topics=["t"], key_deserializer=bytes.hex)
sync_valued = kshare.sync.ShareConsumer("a:1", group="g", topics=["t"], value_deserializer=int)
sync_both = kshare.sync.ShareConsumer(
    "a:1", group="g", topics=["t"], key_deserializer=bytes.hex, value_deserializer=int
)


def sync_loops() -> None:
    for a in sync_plain:
        reveal_type(a)  # is ShareRecord
    for b in sync_keyed:
        reveal_type(b)  # is ReadRecord[str | None, bytes | None]
    for c in sync_valued:
        reveal_type(c)  # is ReadRecord[bytes | None, int | None]
    for d in sync_both:
        reveal_type(d)  # is ReadRecord[str | None, int | None]
    for e in sync_plain.batches():
        reveal_type(e)  # is ShareBatch[ShareRecord]
    for f in sync_keyed.batches():
        reveal_type(f)  # is ShareBatch[ReadRecord[str | None, bytes | None]]
    for g in sync_valued.batches():
        reveal_type(g)  # is ShareBatch[ReadRecord[bytes | None, int | None]]
    for h in sync_both.batches():
        reveal_type(h)  # is ShareBatch[ReadRecord[str | None, int | None]]
    reveal_type(sync_valued.next_batch())  # is ShareBatch[ReadRecord[bytes | None, int | None]]
    reveal_type(sync_plain.next_batch(timeout=1))  # is ShareBatch[ShareRecord] | None
    with sync_valued as opened:
        reveal_type(opened)  # is ShareConsumer[ReadRecord[bytes | None, int | None]]


# --- right

security: ClientOptions = {"tls": ssl.create_default_context(), "sasl_mechanism": "PLAIN", "username": "u"}
mutual: ClientOptions = {**security, "cert_file": "me.pem"}
options: ConsumerOptions = {"max_records": 10}
more: ConsumerOptions = {**options, "acknowledgement": "explicit"}
patient: ClientOptions = {**security, "request_timeout": 5}
pasted: dict[str, Any] = {"group.id": "g"}
ShareConsumer(["a:1", "b:1"], group="g", topics={"t"}, acknowledgement="explicit", request_timeout=5)
ShareConsumer("a:1", group="g", topics="t", **options, value_deserializer=int)
ShareConsumer("a:1", group="g", topics="t", **options, **security)
ShareConsumer("a:1", group="g", topics="t", rack="r", client_id="c", **pasted)
ShareConsumer("a:1", group="g", topics=["t"], key_deserializer=None)
ShareConsumer("a:1", topics=["t"], **pasted)
kshare.sync.ShareConsumer("a:1", group="g", topics="t", **options, **security, value_deserializer=int)
AdminClient("a:1", **security)
AdminClient("a:1", request_timeout=1.5)
ShareConsumer("a:1", group="g", topics=["t"], on_settled=print, **security)
AdminClient(**pasted)
Broker(topics={"t": 1}, release="4.1", clock=ManualClock())

# --- wrong

ShareConsumer("a:1", group="g", topics=["t"], max_recrods=10)  # error
ShareConsumer("a:1", group="g", topics=["t"], max_records="10")  # error
ShareConsumer("a:1", group="g", topics=["t"], acknowledgement="explicitly")  # error
ShareConsumer("a:1", group="g", topics=["t"], value_deserializer="int")  # error
ShareConsumer("a:1", group="g", topics=["t"], value_deserializer=lambda: 1)  # error
ShareConsumer("a:1", group="g", topics=["t"], value_deserializer=int, renew_leases="no")  # error
ShareConsumer("a:1", group="g")  # error
kshare.sync.ShareConsumer("a:1", group="g", topics=["t"], max_recrods=10)  # error
kshare.sync.ShareConsumer("a:1", group="g", topics=["t"], max_records="10")  # error
AdminClient("a:1", request_timeot=10)  # error
AdminClient("a:1", request_timeout="10")  # error
AdminClient("a:1", max_records=10)  # error
Broker(relase="4.1")  # error
Broker(release="4.2")  # error
Broker(topics=["t"])  # error
mistyped: ConsumerOptions = {"max_recrods": 10}  # error
ShareConsumer("a:1", **options)  # error
ShareConsumer("a:1", group="g", **options, **security)  # error
kshare.sync.ShareConsumer("a:1", topics="t", **options)  # error
plain.stretch()  # error
plain.hold_at_most(3)  # error
plain.set_max_records("3")  # error
sync_plain.next_batch(timeout="1")  # error
"""


def mypy(file: Path) -> Findings:
    command = ["mypy", "--no-error-summary", "--hide-error-context", "--config-file", "pyproject.toml"]
    output = run([*command, "--cache-dir", str(file.parent / "cache"), str(file)])
    found = re.findall(rf"^{re.escape(str(file))}:(\d+): (error|note): (.*)$", output, re.MULTILINE)
    errors = {int(line) for line, kind, _ in found if kind == "error"}
    revealed = {
        int(line): match[1]
        for line, _, text in found
        if (match := re.match(r'Revealed type is "(.*)"', text))
    }
    return errors, revealed


def pyright(file: Path) -> Findings:
    output = run(["pyright", "--outputjson", "--pythonpath", sys.executable, str(file)])
    errors, revealed = set(), {}
    for finding in json.loads(output)["generalDiagnostics"]:
        line = finding["range"]["start"]["line"] + 1
        if finding["severity"] == "error":
            errors.add(line)
        elif match := re.match(r'Type of ".*" is "(.*)"', finding["message"]):
            revealed[line] = match[1]
    return errors, revealed


def run(command: list[str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.stdout, done.stderr
    return done.stdout


def shortened(kind: str) -> str:
    """Remove the module names that mypy prints before type names."""
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", kind)


@pytest.mark.lengthy
@pytest.mark.parametrize("check", [mypy, pyright])
def test_a_misspelt_option_is_an_error_and_records_are_typed(
    check: Callable[[Path], Findings], tmp_path: Path
) -> None:
    file = tmp_path / "calls.py"
    file.write_text(CALLS, encoding="utf-8")
    errors, revealed = check(file)
    lines = dict(enumerate(CALLS.splitlines(), 1))
    assert {lines[line] for line in errors} == {text for text in lines.values() if text.endswith("# error")}
    expected = {line: text.partition("# is ")[2] for line, text in lines.items() if "# is " in text}
    assert {line: shortened(kind) for line, kind in revealed.items()} == expected


@pytest.mark.lengthy
def test_hovering_over_an_option_shows_its_docs(tmp_path: Path) -> None:
    calls: dict[str, list[Option]] = {
        "kshare.ShareConsumer": [*CONSUMER, *CLIENT],
        "kshare.sync.ShareConsumer": [*CONSUMER, *CLIENT],
        "kshare.AdminClient": CLIENT,
        "kshare.testing.Broker": BROKER,
    }
    lines, wanted = ["import kshare, kshare.sync, kshare.testing", ""], {}
    for function, options in calls.items():
        lines.append(f"{function}(")
        for option in options:
            wanted[len(lines)] = option
            lines.append(f"    {option.name}=...,")
        lines.append(")")
    file = tmp_path / "calls.py"
    file.write_text("\n".join(lines), encoding="utf-8")
    with LanguageServer(ROOT) as server:
        server.open(file)
        for line, option in wanted.items():
            shown = " ".join(server.hover(file, line, 4).split())
            assert option.docs, f"{option.name} has no docs"
            assert option.docs in shown, (option.name, shown)

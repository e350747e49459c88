"""Every command that connects to a cluster, with a listener that requires TLS and SASL.

With the right options it works. With wrong ones, it prints the reason on one line, and no secret.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from socket import socket
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread

import pytest
import trustme

from kshare.testing import Broker
from tests.cli.running import Kshare, kshare

USER, PASSWORD = "alice", "s=cr,t word"
WRONG = "gu3ssed"
COMMANDS = {
    "consume": ["consume", "-t", "orders", "-g", "readers", "-n", "1", "--timeout-ms", "20000"],
    "produce": ["produce", "-t", "parcels", "--count", "2"],
    "groups": ["groups", "list"],
    "topics": ["topics", "list"],
    "state": ["state"],
    "lag": ["lag"],
    "top": ["top", "--once", "--interval", "0.1"],
    "dlq": ["dlq", "list"],
    "doctor": ["doctor"],
    "trace": ["trace", "--listen", "127.0.0.1:0"],
    "exporter": ["exporter", "--listen", "127.0.0.1:0"],
}
LASTING = ("trace", "exporter")
JSON = {"produce", "groups", "topics", "state", "lag", "top", "dlq", "doctor"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path, Path]:
    """The broker's TLS context, the CA that issued its certificate, and another CA."""
    folder = tmp_path_factory.mktemp("certificates")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority, stranger = trustme.CA(), trustme.CA()
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    stranger.cert_pem.write_to_path(str(folder / "stranger.pem"))
    return context, folder / "ca.pem", folder / "stranger.pem"


class _Web(BaseRequestHandler):
    """Responses like a web server that gets an invalid request."""

    def handle(self) -> None:
        self.request.recv(4096)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n<html>400</html>")


class _Silent(BaseRequestHandler):
    """Accepts connections, but never sends anything."""

    def handle(self) -> None:
        while self.request.recv(4096):
            pass


@contextmanager
def _listening(handler: type[BaseRequestHandler]) -> Iterator[str]:
    with ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield "{}:{}".format(*server.server_address)
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def strangers(certificates: tuple[ssl.SSLContext, Path, Path]) -> Iterator[dict[str, str]]:
    """The values of the placeholders in `MISTAKES`."""
    with _listening(_Web) as web, _listening(_Silent) as silent, socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound but not listening, so that nothing else can use the port
        yield {
            "CA": str(certificates[1]),
            "STRANGER": str(certificates[2]),
            "WEB": web,
            "SILENT": silent,
            "NOBODY": "{}:{}".format(*nobody.getsockname()),
        }


@pytest.fixture(scope="module")
def broker(certificates: tuple[ssl.SSLContext, Path, Path]) -> Iterator[Broker]:
    with Broker(topics={"orders": 1, "parcels": 1}, users={USER: PASSWORD}, tls=certificates[0]) as broker:
        for group in ("readers", "shippers"):
            broker.set_group_config(group, {"share.auto.offset.reset": "earliest"})
        broker.produce("orders", [b"a", b"b"])
        yield broker


class Door:
    """Writes property files for `broker`. `file` can change or omit properties."""

    def __init__(self, broker: Broker, authority: Path, folder: Path) -> None:
        self._file = folder / "client.properties"
        self._properties = {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(authority),
        }

    def file(self, **changed: str | None) -> str:
        named = {name.replace("_", "."): value for name, value in changed.items()}
        lines = [f"{name}={value}\n" for name, value in (self._properties | named).items() if value]
        self._file.write_text("".join(lines))
        return str(self._file)


@pytest.fixture
def door(broker: Broker, certificates: tuple[ssl.SSLContext, Path, Path], tmp_path: Path) -> Door:
    return Door(broker, certificates[1], tmp_path)


PLAIN = {"sasl_mechanism": None, "sasl_username": None, "sasl_password": None, "ssl_ca_location": None}
MISTAKES: dict[str, tuple[dict[str, str | None], str]] = {
    "wrong password": ({"sasl_password": WRONG}, f"SCRAM-SHA-512 as {USER} was refused"),
    "unknown user": ({"sasl_username": "mallory"}, "SCRAM-SHA-512 as mallory was refused"),
    "no login": (PLAIN | {"security_protocol": "SSL", "ssl_ca_location": "CA"}, "set sasl_mechanism"),
    "wrong authority": (
        {"ssl_ca_location": "STRANGER"},
        "isn't signed by an authority that this client trusts",
    ),
    "missing authority file": ({"ssl_ca_location": "/nowhere/ca.pem"}, "can't be read"),
    "plaintext at a TLS port": (
        PLAIN | {"security_protocol": "PLAINTEXT"},
        "if its listener requires TLS or SASL, set tls",
    ),
    "closed port": ({"bootstrap_servers": "NOBODY"}, "connection refused"),
    "a web server": (
        PLAIN | {"security_protocol": "PLAINTEXT", "bootstrap_servers": "WEB"},
        "it looks like HTTP: this isn't a Kafka listener",
    ),
    "a web server, with TLS": ({"bootstrap_servers": "WEB"}, "doesn't speak TLS"),
    "a silent server": (
        PLAIN
        | {
            "security_protocol": "PLAINTEXT",
            "bootstrap_servers": "SILENT",
            "socket_connection_setup_timeout_ms": "500",
        },
        "within 0.5 s",
    ),
}
REFUSALS = ("wrong password", "unknown user", "wrong authority", "missing authority file")
"""The mistakes at which `trace` and `exporter` end. An unreachable cluster may start later, and clients of `trace` may
log in themselves."""


@pytest.mark.lengthy
@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in ("consume", *LASTING)])
def test_command_works_with_the_right_options(run: Kshare, door: Door, command: str) -> None:
    words = [*COMMANDS[command], *(["--json"] if command in JSON else [])]
    done = run(*words, "--command-config", door.file())
    assert done.code == 0, done.err
    if command in JSON:
        assert json.loads(done.out) is not None
    assert PASSWORD not in done.out + done.err


@pytest.mark.lengthy
def test_consume_works_with_the_right_options(door: Door) -> None:
    """In its own process, because it writes to the descriptor of stdout."""
    done = kshare(*COMMANDS["consume"], "--command-config", door.file())
    assert (done.code, done.out) == (0, "a\n"), done.err


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("command", "mistake"),
    [
        (command, mistake)
        for command, mistake in product(COMMANDS, MISTAKES)
        if command not in LASTING or mistake in REFUSALS
    ],
)
def test_mistakes_are_reported_on_one_line(
    run: Kshare, door: Door, strangers: dict[str, str], command: str, mistake: str
) -> None:
    changed, reason = MISTAKES[mistake]
    file = door.file(**{name: strangers.get(value or "", value) for name, value in changed.items()})
    done = run(*COMMANDS[command], "--command-config", file)
    assert done.code == 1
    # The doctor continues, and reports the problem in its output.
    assert reason in (done.out if command == "doctor" else done.err)
    assert done.err.count("\n") == 1
    assert done.err.startswith("kshare: ")
    assert PASSWORD not in done.out + done.err
    assert WRONG not in done.out + done.err

"""`kshare web`: options, the demo, and how it ends."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import warnings
from contextlib import closing
from getpass import GetPassWarning
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kshare.cli.web import run as web_run
from kshare.cli.web.run import SHORTEST_PASSWORD
from kshare.web.config import WebConfig
from tests.cli.running import DEADLINE, Kshare, assert_refused
from tests.helpers.documents import ROOT

DOCS = Path(__file__).parents[3] / "docs" / "web.md"
WEB = [sys.executable, "-m", "kshare", "web"]


@pytest.mark.lengthy
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_demo_runs_until_it_is_told_to_stop(free_tcp_port: int, end: signal.Signals) -> None:
    with subprocess.Popen(
        [*WEB, "--demo", "--listen", f"127.0.0.1:{free_tcp_port}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as console:
        assert console.stdout is not None
        assert console.stderr is not None
        line = console.stdout.readline()
        assert line == f"kshare web: http://127.0.0.1:{free_tcp_port}/\n"
        with urllib.request.urlopen(line.split()[-1], timeout=DEADLINE) as response:
            assert b"Share groups" in response.read()
        console.send_signal(end)
        assert console.wait(DEADLINE) == 0
        assert "Traceback" not in console.stderr.read()


@pytest.mark.lengthy
def test_a_cluster_that_is_away_is_said_once() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound but not listening, so that nothing else can use the port
        where = "{}:{}".format(*nobody.getsockname())
        with subprocess.Popen(
            [*WEB, "-b", where, "--listen", "127.0.0.1:0", "--interval", "0.5"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as console:
            assert console.stderr is not None
            line = console.stderr.readline()
            assert line.startswith(f"the cluster can't be read: can't reach {where}")
            time.sleep(1.5)
            console.terminate()
            assert console.wait(DEADLINE) == 0
            assert console.stderr.read() == ""


@pytest.mark.lengthy
def test_a_stalled_cluster_does_not_delay_the_end() -> None:
    """It accepts connections, and never responds. A page waits for it."""
    with socket.create_server(("127.0.0.1", 0)) as stalled:
        where = "{}:{}".format(*stalled.getsockname())
        with subprocess.Popen(
            [*WEB, "-b", where, "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as console:
            assert console.stdout is not None
            assert console.stderr is not None
            url = urlsplit(console.stdout.readline().split()[-1])
            with closing(HTTPConnection(url.netloc, timeout=DEADLINE)) as page:
                page.request("GET", "/records")
                time.sleep(0.5)
                console.terminate()
                with closing(page.getresponse()) as response:
                    assert (response.status, b"the console is being stopped" in response.read()) == (
                        503,
                        True,
                    )
            assert console.wait(DEADLINE) == 0
            assert "Traceback" not in console.stderr.read()


_REGISTRY = "http://ann:geheim@127.0.0.1:1"


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("words", "environment", "lines"),
    [(["--schema-registry", _REGISTRY], {}, 1), ([], {"KSHARE_SCHEMA_REGISTRY": _REGISTRY}, 0)],
    ids=["in the command line", "in the environment"],
)
def test_a_registrys_password_in_the_command_line_is_warned_of(
    words: list[str], environment: dict[str, str], lines: int
) -> None:
    with subprocess.Popen(
        [*WEB, "-b", "127.0.0.1:1", "--listen", "127.0.0.1:0", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as console:
        assert console.stdout is not None
        assert console.stderr is not None
        console.stdout.readline()  # once it is ready
        console.terminate()
        assert console.wait(DEADLINE) == 0
        said = console.stderr.read()
    assert said.count("--schema-registry has a password") == lines
    assert "geheim" not in said


def test_wrong_usage_is_refused(run: Kshare, tmp_path: Path, free_tcp_port: int) -> None:
    server = ["-b", f"127.0.0.1:{free_tcp_port}"]
    for words, reason in (
        (["--demo", *server], "--demo runs a broker and a worker of its own"),
        (["--demo", "--worker-topic", "w"], "--demo runs a broker and a worker of its own"),
        ([*server, "--worker", "shop:8080"], "'shop:8080' isn't the URL of a worker"),
        ([*server, "--worker-topic", "w", "--worker-host", "10.0.0.1/8"], "'10.0.0.1/8' is neither"),
        ([*server, "--worker-host", "*.shop"], "name the topic, too (--worker-topic)"),
        ([*server, "--listen", "nowhere"], "--listen nowhere"),
        ([*server, "--listen", "0.0.0.0:8932"], "everyone in the network"),
        ([*server, "--user-header", "X", "--allow-changes"], "(--user-header) has no rights"),
        ([*server, "--user-header", ""], "'' can't be the name of a header"),
        ([*server, "--trusted-proxy", "10.0.0.5"], "name that header (--user-header)"),
        ([*server, "--schema-registry", "ftp://a:b@registry"], "isn't the URL of a schema registry"),
    ):
        assert_refused(run("web", *words), 2, reason)
    assert_refused(
        run("web", *server, "--listen", "127.0.0.1:0", "--users", str(tmp_path / "none")), 1, "users file"
    )
    audit = str(tmp_path / "none" / "audit.log")
    assert_refused(
        run("web", *server, "--listen", "127.0.0.1:0", "--audit-log", audit),
        1,
        f"the audit log {audit} can't",
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        assert_refused(run("web", *server, "--listen", listen), 1, f"can't listen on {listen}")


def test_a_cluster_that_the_environment_names_is_none_of_the_demo(
    run: Kshare, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(web_run, "run_web", lambda server, *_, is_demo, **__: asked.append((server, is_demo)))
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", "127.0.0.1:1")
    assert run("web", "--demo").code == 0
    assert run("web").code == 0
    assert asked == [(None, True), ("127.0.0.1:1", False)]


@pytest.mark.lengthy
def test_passwords_have_a_least_length_which_the_guide_says(
    run: Kshare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kshare.cli.web.run._asked", lambda question: "r")
    typed = "x" * (SHORTEST_PASSWORD - 1)
    monkeypatch.setattr("kshare.cli.web.run.getpass", lambda *_: typed)
    done = run("web", "--make-user", "anna")
    assert (done.code, done.out) == (1, "")
    assert done.err == f"kshare: the password is too short: at least {SHORTEST_PASSWORD} characters\n"
    typed += "x"
    assert run("web", "--make-user", "anna").out.startswith("anna:read:")
    guide = (ROOT / "docs/web.md").read_text(encoding="utf-8")
    assert f"a password of at least {SHORTEST_PASSWORD} characters" in guide


def test_a_name_that_no_user_can_have_is_refused_before_anything_is_asked(run: Kshare) -> None:
    done = run("web", "--make-user", "a:b")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("kshare: --make-user: 'a:b' can't be a user's name")


@pytest.mark.lengthy
def test_without_a_terminal_the_password_is_a_line(run: Kshare, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_terminal(*_: object) -> str:
        warnings.warn("Can not control echo on the terminal.", GetPassWarning, stacklevel=1)
        return ""

    monkeypatch.setattr("kshare.cli.web.run.getpass", no_terminal)
    monkeypatch.setattr("sys.stdin", io.StringIO("c\ncorrect horse\n"))
    done = run("web", "--make-user", "anna")
    assert (done.code, done.out[:12]) == (0, "anna:change:")
    assert "Warning" not in done.err
    monkeypatch.setattr("sys.stdin", io.StringIO("c\n"))
    done = run("web", "--make-user", "anna")
    assert (done.code, done.out) == (1, "")
    assert "the rights of the user and a password are needed, each on a line" in done.err


def test_the_docs_say_where_the_demo_is() -> None:
    usual = WebConfig({"bootstrap.servers": "localhost:9092"})
    _, _, after = DOCS.read_text().partition("kshare web --demo\n")
    assert f"open <http://{usual.host}:{usual.port}/>" in after.partition("## ")[0]

"""Who may use the console, and what forged requests get."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import threading
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from kshare.broker.settings import Resource
from kshare.errors import ConfigError
from kshare.testing import Broker
from kshare.web.access import Access
from kshare.web.config import WebConfig
from kshare.web.users import User, Users, read_entries, user_line
from tests.helpers.consoles import StartConsole, eventually, session
from tests.helpers.packers import GROUP, with_packers

SETTINGS, OFFSETS = f"/group/settings?name={GROUP}", f"/group/offsets?name={GROUP}"
CHANGE = {"name": GROUP, "setting": "share.session.timeout.ms", "value": "50000"}


@pytest.fixture(autouse=True)
def _cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what is advised, checking a password takes half a second."""
    monkeypatch.setattr("kshare.web.users._COST_BITS", 14)


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    return with_packers(kshare_broker)


def value_of(broker: Broker) -> str | None:
    found: str | None = broker.call(lambda: broker.state.configs.of(Resource.GROUP, GROUP)).get(
        CHANGE["setting"]
    )
    return found


@pytest.mark.lengthy
def test_the_cookie_of_a_session_is_for_the_browser_alone(start: StartConsole) -> None:
    cookie = start().request("/")[1]["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


@pytest.mark.lengthy
def test_read_only_by_default_even_with_a_valid_form(start: StartConsole, broker: Broker) -> None:
    console = start()
    headers, token = session(console, OFFSETS)
    status, _, text = console.request("/group/settings", {**CHANGE, "token": token}, headers)
    assert (status, "--allow-changes" in text) == (403, True)
    assert value_of(broker) is None


@pytest.mark.lengthy
def test_a_form_of_our_own_page_is_accepted_and_audited(
    start: StartConsole, broker: Broker, tmp_path: Path
) -> None:
    audit = tmp_path / "audit.log"
    console = start(allow_changes=True, audit_log=audit)
    headers, token = session(console, OFFSETS)
    status, found, _ = console.request("/group/settings", {**CHANGE, "token": token}, headers)
    saved = f"{SETTINGS}&saved=share.session.timeout.ms&before=45000&after=50000&seal="
    assert (status, found["location"].startswith(saved)) == (303, True)
    assert value_of(broker) == "50000"
    lines = audit.read_text().splitlines()
    assert len(lines) == 2
    assert '"outcome": "begun"' in lines[0]
    assert '"outcome": "done"' in lines[1]
    begun, done = (json.loads(line) for line in lines)
    assert (done["user"], done["address"]) == ("anyone on this machine", "127.0.0.1")
    for line in (begun, done):
        assert (line["setting"], line["before"], line["value"]) == (CHANGE["setting"], "45000", "50000")


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("form", "headers"),
    [
        ({}, {}),
        ({"token": ""}, {}),
        ({"token": "0" * 64}, {}),
        ({"token": "valid"}, {"Cookie": "kshare_session=other"}),
        ({"token": "valid"}, {"Cookie": ""}),
        ({"token": "valid"}, {"Origin": "http://evil.example"}),
        ({"token": "valid"}, {"Origin": "null"}),
        ({"token": "valid"}, {"Sec-Fetch-Site": "cross-site"}),
        ({"token": "valid"}, {"Sec-Fetch-Site": "same-site"}),
    ],
)
def test_forged_forms_are_refused(
    start: StartConsole, broker: Broker, form: dict[str, str], headers: dict[str, str]
) -> None:
    console = start(allow_changes=True)
    own, token = session(console, OFFSETS)
    sent = {**CHANGE, **{name: token if value == "valid" else value for name, value in form.items()}}
    status, _, _ = console.request("/group/settings", sent, {**own, **headers})
    assert status == 403
    assert value_of(broker) is None


@pytest.mark.lengthy
def test_no_change_is_made_that_cannot_be_written_down(
    start: StartConsole, broker: Broker, tmp_path: Path
) -> None:
    audit = tmp_path / "logs" / "audit.log"
    audit.parent.mkdir()
    console = start(allow_changes=True, audit_log=audit)
    shutil.rmtree(audit.parent)
    headers, token = session(console, OFFSETS)
    status, _, text = console.request("/group/settings", {**CHANGE, "token": token}, headers)
    assert status == 502
    assert "audit.log" in text
    assert value_of(broker) is None


@pytest.mark.lengthy
def test_other_host_names_are_refused(start: StartConsole) -> None:
    console = start()
    port = console.url.rpartition(":")[2]
    for host in (f"evil.example:{port}", "evil.example", ""):
        assert console.request("/", headers={"Host": host})[0] == 421, host
    assert console.request("/", headers={"Host": f"localhost:{port}"})[0] == 200
    assert start(allowed_hosts=("queues.example",)).request("/", headers={"Host": "queues.example"})[0] == 200


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


@pytest.mark.lengthy
def test_users_need_their_password_and_may_do_what_their_line_says(
    start: StartConsole, broker: Broker, tmp_path: Path
) -> None:
    users = tmp_path / "users"
    users.write_text(
        "# the crew\n"
        + user_line("anna", "correct horse", may_change=True)
        + "\n"
        + user_line("ben", "battery staple", may_change=False)
        + "\n"
    )
    console = start(users=users, allow_changes=True)
    for headers in (
        {},
        basic("anna", "wrong"),
        basic("carl", "correct horse"),
        basic("", ""),
        {"Authorization": "Basic %%%"},
        {"Authorization": "Basic é"},
        {"Authorization": "Bearer x"},
    ):
        for path in ("/", "/static/console.css", "/events", f"/group?name={GROUP}"):
            status, found, text = console.request(path, headers=headers)
            assert status == 401, path
            assert found["www-authenticate"].startswith("Basic")
            assert GROUP not in text
    headers, token = session(console, OFFSETS, basic("ben", "battery staple"))
    assert console.request("/group/settings", {**CHANGE, "token": token}, headers)[0] == 403
    headers, token = session(console, OFFSETS, basic("anna", "correct horse"))
    assert console.request("/group/settings", {**CHANGE, "token": token}, headers)[0] == 303
    assert value_of(broker) == "50000"


@pytest.mark.lengthy
def test_a_trusted_proxy_names_the_user(start: StartConsole) -> None:
    console = start(user_header="X-Forwarded-User")
    assert console.request("/")[0] == 401
    status, _, text = console.request("/", headers={"X-Forwarded-User": "<b>anna</b>"})
    assert status == 200
    assert "&lt;b&gt;anna&lt;/b&gt;" in text
    other = start(user_header="X-Forwarded-User", trusted_proxies=("192.0.2.1",))
    assert other.request("/", headers={"X-Forwarded-User": "anna"})[0] == 401


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("sent", "forwarded_for"),
    [
        ({"X-Forwarded-For": "forged, 192.0.2.7"}, "192.0.2.7"),
        ({"X-Forwarded-For": "127.0.0.1 via nobody"}, None),
        ({}, None),
    ],
)
def test_the_audit_log_tells_what_a_proxy_says_from_what_is_known(
    start: StartConsole, tmp_path: Path, sent: dict[str, str], forwarded_for: str | None
) -> None:
    audit, users = tmp_path / "audit.log", tmp_path / "users"
    users.write_text("anna:change")
    console = start(allow_changes=True, audit_log=audit, user_header="X-User", users=users)
    headers, token = session(console, OFFSETS, {"X-User": "anna", **sent})
    assert console.request("/group/settings", {**CHANGE, "token": token}, headers)[0] == 303
    for line in map(json.loads, audit.read_text().splitlines()):
        assert (line["address"], line.get("forwarded_for")) == ("127.0.0.1", forwarded_for)


@pytest.mark.lengthy
def test_only_a_trusted_proxy_may_name_another_address(start: StartConsole, tmp_path: Path) -> None:
    audit = tmp_path / "audit.log"
    console = start(allow_changes=True, audit_log=audit)
    headers, token = session(console, OFFSETS, {"X-Forwarded-For": "192.0.2.7"})
    assert console.request("/group/settings", {**CHANGE, "token": token}, headers)[0] == 303
    for line in map(json.loads, audit.read_text().splitlines()):
        assert (line["address"], line.get("forwarded_for")) == ("127.0.0.1", None)


@pytest.mark.lengthy
def test_a_proxys_users_need_a_right_to_make_changes(
    start: StartConsole, broker: Broker, tmp_path: Path
) -> None:
    users = tmp_path / "users"
    users.write_text("anna:change\nben:read\n")
    console = start(allow_changes=True, user_header="X-User", users=users)
    for name in ("ben", "guest"):
        headers, token = session(console, OFFSETS, {"X-User": name})
        assert console.request("/group/settings", {**CHANGE, "token": token}, headers)[0] == 403
    assert value_of(broker) is None
    headers, token = session(console, OFFSETS, {"X-User": "anna"})
    assert console.request("/group/settings", {**CHANGE, "token": token}, headers)[0] == 303
    users.write_text("*:change\nben:read\n")
    headers, token = session(console, OFFSETS, {"X-User": "guest"})
    assert console.request("/group/settings", {**CHANGE, "token": token}, headers)[0] == 303


@pytest.mark.lengthy
def test_a_removed_user_is_out_at_once(start: StartConsole, tmp_path: Path) -> None:
    users = tmp_path / "users"
    anna = user_line("anna", "correct horse", may_change=False)
    users.write_text(f"{anna}\n{user_line('ben', 'battery staple', may_change=False)}\n")
    console = start(users=users)
    for name, password in (("anna", "correct horse"), ("ben", "battery staple")):
        assert console.request("/", headers=basic(name, password))[0] == 200
    users.write_text(f"{anna}\n")
    assert console.request("/", headers=basic("ben", "battery staple"))[0] == 401
    assert console.request("/", headers=basic("anna", "correct horse"))[0] == 200


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("sent", "is_secure"),
    [
        ({}, False),
        ({"X-Forwarded-Proto": "https"}, True),
        ({"X-Forwarded-Proto": "http, HTTPS"}, True),
        ({"X-Forwarded-Proto": "https, http"}, False),
    ],
)
def test_behind_tls_the_cookie_is_for_tls_only(
    start: StartConsole, sent: dict[str, str], is_secure: bool
) -> None:
    assert ("; Secure" in start().request("/", headers=sent)[1]["set-cookie"]) == is_secure


@pytest.mark.lengthy
@pytest.mark.parametrize(("host", "is_warned"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_passwords_that_the_network_could_read_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, host: str, is_warned: bool
) -> None:
    users = tmp_path / "users"
    users.write_text(user_line("anna", "correct horse", may_change=False))
    users.chmod(0o600)
    Access(WebConfig({"bootstrap.servers": "localhost:9092"}, host=host, users=users))
    said = [record.getMessage() for record in caplog.records]
    assert [text.partition(":")[0] for text in said] == [
        f"passwords are sent to {host} without encryption"
    ] * is_warned


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"user_header": ""}, "'' can't be the name of a header"),
        ({"user_header": "X User"}, "'X User' can't be the name of a header"),
        ({"trusted_proxies": ("10.0.0.5",)}, "name that header"),
        ({"user_header": "X-User", "trusted_proxies": ("proxy.shop",)}, "'proxy.shop' isn't the address of"),
    ],
)
def test_options_that_would_let_nobody_in_or_anybody(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        WebConfig({"bootstrap.servers": "localhost:9092"}, **options)


@pytest.mark.lengthy
def test_a_header_that_was_sent_twice_names_nobody(start: StartConsole) -> None:
    """A proxy that appends its header would let the client choose the user."""
    console = start(user_header="X-User")
    connection = HTTPConnection(urlsplit(console.url).netloc, timeout=20)
    connection.putrequest("GET", "/")
    connection.putheader("X-User", "evil")
    connection.putheader("X-User", "real")
    connection.endheaders()
    assert connection.getresponse().status == 401
    connection.close()


@pytest.mark.lengthy
def test_odd_characters_are_refused_and_no_error_of_ours(start: StartConsole, broker: Broker) -> None:
    console = start(allow_changes=True)
    headers, token = session(console, OFFSETS)
    assert console.request("/group/settings", {**CHANGE, "token": "é" * 64}, headers)[0] == 403
    origin = {**headers, "Origin": "http://["}
    assert console.request("/group/settings", {**CHANGE, "token": token}, origin)[0] == 403
    reset = {"name": GROUP, "to": "offset", "value": "9" * 5000, "token": token}
    assert console.request("/group/offsets", reset, headers)[0] == 400
    assert value_of(broker) is None


@pytest.mark.lengthy
def test_an_empty_session_is_replaced(start: StartConsole) -> None:
    console = start()
    found = eventually(
        lambda: console.request("/", headers={"Cookie": "kshare_session="}),
        lambda response: response[0] == 200,
    )[1]
    assert len(found["set-cookie"].partition(";")[0].partition("=")[2]) > 20


@pytest.mark.lengthy
def test_consoles_on_one_host_do_not_take_each_others_sessions(start: StartConsole, broker: Broker) -> None:
    """A browser sends its cookies to all ports of a host: forms of one were outdated once a page of the other came."""
    first, second = start(allow_changes=True), start(allow_changes=True)
    headers, token = session(first, OFFSETS)
    others, _ = session(second, OFFSETS, headers)
    both = {"Cookie": f"{headers['Cookie']}; {others['Cookie']}"}
    assert first.request("/group/settings", {**CHANGE, "token": token}, both)[0] == 303
    assert value_of(broker) is not None


@pytest.mark.lengthy
def test_a_session_is_of_the_user_that_it_was_given_to(
    start: StartConsole, broker: Broker, tmp_path: Path
) -> None:
    users = tmp_path / "users"
    users.write_text(
        f"{user_line('anna', 'correct horse', may_change=True)}\n"
        f"{user_line('ben', 'battery staple', may_change=True)}\n"
    )
    console = start(users=users, allow_changes=True)
    bens, token = session(console, OFFSETS, basic("ben", "battery staple"))
    annas = {**basic("anna", "correct horse"), "Cookie": bens["Cookie"]}
    assert console.request("/group/settings", {**CHANGE, "token": token}, annas)[0] == 403
    assert value_of(broker) is None


@pytest.mark.lengthy
def test_allowed_hosts_are_compared_as_names_are(start: StartConsole) -> None:
    console = start(allowed_hosts=("Queues.Example",))
    for host in ("queues.example", "Queues.Example", "QUEUES.EXAMPLE:80"):
        assert console.request("/", headers={"Host": host})[0] == 200, host


@pytest.mark.lengthy
def test_guesses_of_passwords_keep_nobody_waiting(start: StartConsole, tmp_path: Path) -> None:
    """A password is checked in a thread. While one is, the console responds to others."""
    users = tmp_path / "users"
    users.write_text(user_line("anna", "correct horse", may_change=False))
    console = start(users=users)
    known, _ = session(console, OFFSETS, basic("anna", "correct horse"))
    is_checking, may_end = threading.Event(), threading.Event()

    def slow(self: Users, name: str, password: str) -> User | None:
        is_checking.set()
        may_end.wait(20)
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Users, "check", slow)
        guess = threading.Thread(target=console.request, args=("/",), kwargs={"headers": basic("anna", "x")})
        guess.start()
        assert is_checking.wait(20)
        assert console.request("/health", headers=known)[0] == 200
        may_end.set()
        guess.join(20)


@pytest.mark.lengthy
def test_idle_connections_keep_nobody_out(start: StartConsole) -> None:
    console = start()
    host, port = urlsplit(console.url).netloc.split(":")
    with ExitStack() as stack:
        for _ in range(600):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=20))
        assert console.request("/health")[0] == 200


@pytest.mark.parametrize("name", ["#anna", " anna", "anna ", "an:na", "", "an\nna"])
def test_names_that_a_file_of_users_could_not_have_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="can't be a user's name"):
        user_line(name, "correct horse", may_change=False)


@pytest.mark.lengthy
def test_a_file_of_users_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "users"
    with pytest.raises(ConfigError, match="there is no users file"):
        Users(read_entries(path))
    line = user_line("anna", "correct horse", may_change=True)
    path.write_text(f"{line}\n{line}\n")
    with pytest.raises(ConfigError, match="line 2: anna has another line already"):
        Users(read_entries(path))
    path.write_text(line, encoding="utf-8-sig")
    assert Users(read_entries(path)).check("anna", "correct horse") == User("anna", True)


@pytest.mark.lengthy
def test_the_network_may_not_read_without_users() -> None:
    with pytest.raises(ConfigError, match="everyone in the network"):
        WebConfig({"bootstrap.servers": "localhost:9092"}, host="0.0.0.0")
    with pytest.raises(ConfigError, match=r"a proxy's header \(--user-header\) has no rights"):
        WebConfig({"bootstrap.servers": "x"}, allow_changes=True, user_header="X-User")


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "text", ["", "anna", "anna:read", "anna:all:scrypt$a$b", "anna:read:plain", "\udcff"]
)
def test_a_broken_file_of_users_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "users").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match="users file"):
        Users(read_entries(tmp_path / "users"))


@pytest.mark.lengthy
def test_secrets_are_in_no_repr() -> None:
    options = {
        "bootstrap.servers": "h:1",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "hunter2",
    }
    assert "hunter2" not in repr(WebConfig(options))


@pytest.mark.lengthy
def test_methods_and_sizes_that_no_page_takes(start: StartConsole) -> None:
    console = start()
    assert console.request("/", method="POST", form={})[0] == 405
    assert console.request("/nothing")[0] == 404
    assert console.request("/static/../config.py")[0] in (400, 404)
    assert console.request("/", headers={"Content-Length": "999999999999"})[0] == 413


@pytest.mark.lengthy
def test_wrong_passwords_are_logged_and_limited(
    start: StartConsole, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    users = tmp_path / "users"
    users.write_text(user_line("anna", "correct horse", may_change=True))
    users.chmod(0o600)
    console = start(users=users)
    known, _ = session(console, OFFSETS, basic("anna", "correct horse"))
    tried = [console.request("/", headers=basic("anna", f"guess {number}")) for number in range(12)]
    assert [status for status, _, _ in tried] == [401] * 10 + [429] * 2
    assert 1 <= int(tried[-1][1]["retry-after"]) <= 60
    assert console.request("/", headers=known)[0] == 200, "logged in already"
    assert console.request("/", headers=basic("ben\n\x1b[2J", "guess"))[0] == 401, "another name"
    logged = [record.getMessage() for record in caplog.records if "wrong password" in record.getMessage()]
    assert logged[0] == "wrong password for user anna from 127.0.0.1: number 1 within a minute"
    assert ": number 10 within a minute; no more are checked for " in logged[9]
    assert logged[10] == r"wrong password for user ben\n\x1b[2J from 127.0.0.1: number 1 within a minute"
    assert "guess" not in caplog.text


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("mode", "is_warned"), [(0o644, True), (0o602, True), (0o600, False), (0o640, False)]
)
def test_a_users_file_that_is_open_to_all_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, is_warned: bool
) -> None:
    users = tmp_path / "users file"
    users.write_text(user_line("anna", "correct horse", may_change=True))
    users.chmod(mode)
    Users(read_entries(users))
    said = f"users file {users} is open to all users of this machine: chmod o-rw '{users}'"
    assert [record.getMessage() for record in caplog.records] == [said] * is_warned


@pytest.mark.lengthy
def test_a_reader_is_told_that_a_right_is_missing(
    start: StartConsole, broker: Broker, tmp_path: Path
) -> None:
    """And not that the console is read-only."""
    users = tmp_path / "users"
    users.write_text(user_line("ben", "battery staple", may_change=False))
    console = start(users=users, allow_changes=True)
    headers, token = session(console, OFFSETS, basic("ben", "battery staple"))
    status, _, text = console.request(
        "/group/offsets", {"name": GROUP, "to": "earliest", "token": token}, headers
    )
    assert status == 200
    assert "You may only read: changes need the right <code>change</code>." in text
    assert "This console is read-only" not in text


@pytest.mark.lengthy
def test_who_guesses_is_not_told_which_password_is_right(start: StartConsole, tmp_path: Path) -> None:
    """Once anna had logged in anywhere, her password was accepted however many had been wrong."""
    users = tmp_path / "users"
    users.write_text(
        f"{user_line('anna', 'correct horse', may_change=True)}\n"
        f"{user_line('ben', 'battery staple', may_change=True)}\n"
    )
    console = start(users=users)
    right = basic("anna", "correct horse")
    annas, _ = session(console, OFFSETS, right)
    bens, _ = session(console, OFFSETS, basic("ben", "battery staple"))
    for number in range(10):
        assert console.request("/", headers=basic("anna", f"guess {number}"))[0] == 401
    for cookie in ({}, {"Cookie": bens["Cookie"]}, {"Cookie": "kshare_session=x"}):
        for sent in (right, basic("anna", "guess")):
            assert console.request("/", headers={**sent, **cookie})[0] == 429
    stolen = {"Cookie": annas["Cookie"], **basic("anna", "guess")}
    assert console.request("/", headers=stolen)[0] == 429
    assert console.request("/", headers=annas)[0] == 200


@pytest.mark.lengthy
def test_a_session_of_somebody_else_is_replaced(start: StartConsole, tmp_path: Path) -> None:
    """As after a restart: without a session of their own, the limits would count for who is logged in."""
    users = tmp_path / "users"
    users.write_text(user_line("anna", "correct horse", may_change=True))
    sent = {"Cookie": "kshare_session=other", **basic("anna", "correct horse")}
    console = start(users=users)
    session(console, OFFSETS, sent)
    given = {**sent, "Cookie": console.request(OFFSETS, headers=sent)[1]["set-cookie"].partition(";")[0]}
    assert "set-cookie" not in console.request(OFFSETS, headers=given)[1]

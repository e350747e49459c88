"""Forms that were filled in wrongly, and what is said after changes: what was typed, and the old value, are there."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest

from kshare.broker.settings import Resource
from kshare.testing import Broker
from tests.helpers.consoles import RunningConsole, StartConsole, eventually, session, submit
from tests.helpers.packers import GROUP, showing_packers, with_packers

OFFSETS = f"/group/offsets?name={GROUP}"
LONG = "x" * 32_768


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    return with_packers(kshare_broker, records=3)


@pytest.fixture
def console(start: StartConsole) -> RunningConsole:
    return showing_packers(start, allow_changes=True)


def problem_of(text: str) -> str:
    (found,) = re.findall(r'role="alert">([^<]*)<', text)
    return unescape(found)


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "path",
    [
        f"/group?name={LONG}",
        f"/records/topic?topic={LONG}",
        f"/records/record?topic={LONG}&partition=0&offset=0",
    ],
)
def test_names_that_are_too_long_for_kafka(console: RunningConsole, path: str) -> None:
    status, _, text = console.request(path)
    assert status == 400
    assert "32768 bytes, but a string has at most 32767. Write a shorter text" in problem_of(text)


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("typed", "status", "reason"),
    [
        ({"topic": "orders", "to": "offset", "value": "two"}, 400, "'two' isn't an offset"),
        ({"topic": "orders", "to": "offset", "value": "99"}, 400, "orders[0] has offsets 0 to 3"),
        ({"topic": "orders", "to": "time", "value": "soon"}, 400, "'soon' isn't a time"),
        ({"topic": "orders", "to": "time", "value": ""}, 400, "a time is missing"),
        ({"topic": "unknown", "to": "latest", "value": ""}, 404, "UNKNOWN_TOPIC_OR_PARTITION"),
        ({"topic": "no topic", "to": "latest", "value": ""}, 400, "INVALID_TOPIC_EXCEPTION"),
        ({"topic": LONG, "to": "latest", "value": ""}, 400, "has at most 32767"),
    ],
)
@pytest.mark.parametrize("confirmed", [{}, {"confirm": "1"}])
def test_what_was_typed_stays_in_the_form_of_offsets(
    console: RunningConsole, typed: dict[str, str], status: int, reason: str, confirmed: dict[str, str]
) -> None:
    found, _, text = submit(console, OFFSETS, "/group/offsets", {"name": GROUP, **typed, **confirmed})
    assert (found, reason in problem_of(text)) == (status, True)
    assert f'<option value="{typed["topic"]}" selected>{typed["topic"]}</option>' in text
    assert f"<option selected>{typed['to']}</option>" in text
    assert f'name="value" value="{typed["value"]}"' in text


@pytest.mark.lengthy
def test_the_audit_log_has_the_offsets_before_a_reset(start: StartConsole, tmp_path: Path) -> None:
    audit = tmp_path / "audit.log"
    console = showing_packers(start, allow_changes=True, audit_log=audit)

    def reset_to(offset: str) -> None:
        form = {"name": GROUP, "topic": "orders", "to": "offset", "value": offset, "confirm": "1"}
        assert submit(console, OFFSETS, "/group/offsets", form)[0] == 303

    reset_to("3")
    reset_to("1")
    begun, done = (json.loads(line) for line in audit.read_text().splitlines()[2:])
    assert (begun["outcome"], done["outcome"]) == ("begun", "done")
    assert begun["before"] == done["before"] == {"orders": {"0": 3}}
    assert done["partitions"] == 1


@pytest.mark.lengthy
def test_choosing_again_keeps_what_was_chosen(console: RunningConsole) -> None:
    form = {"name": GROUP, "topic": "orders", "to": "offset", "value": "2"}
    _, _, text = submit(console, OFFSETS, "/group/offsets", form)
    (again,) = re.findall(r'href="([^"]*)">Choose again', text)
    assert 'name="value" value="2"' in console.request(unescape(again))[2]


@pytest.mark.lengthy
def test_a_reset_is_shown_soon(start: StartConsole, broker: Broker) -> None:
    """Long before the next reading would be taken."""
    console = start(allow_changes=True, interval_s=600)
    headers, token = session(console, OFFSETS)
    form = {"name": GROUP, "topic": "orders", "to": "offset", "value": "3", "confirm": "1", "token": token}
    status, found, _ = console.request("/group/offsets", form, headers)
    assert status == 303
    assert "from the next reading on" in console.request(found["location"], headers=headers)[2]
    eventually(lambda: console.request(f"/group?name={GROUP}")[2], lambda text: "start 3" in text)


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("start=time&from=soon", "isn't a time"),
        ("start=offset", "an offset is missing"),
        ("since=soon", "isn't a time"),
        ("partition=first", "isn't a whole number"),
        ("start=newest&from=many", "isn't a whole number"),
    ],
)
def test_what_was_typed_stays_in_the_filter_of_records(
    console: RunningConsole, query: str, reason: str
) -> None:
    status, _, text = console.request(f"/records/topic?topic=orders&key={quote('a b')}&{query}")
    assert (status, reason in problem_of(text)) == (400, True)
    assert 'name="key" value="a b"' in text


SETTING = "share.session.timeout.ms"


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([{"value": "50000"}], "was changed from 45000 to 50000."),
        ([{"value": "50000"}, {"remove": "1"}], "was changed back to its default; it was 50000."),
    ],
)
def test_a_changed_setting_has_its_old_and_its_new_value(
    console: RunningConsole, changes: list[dict[str, str]], said: str
) -> None:
    page = f"/group/settings?name={GROUP}"
    headers, token = session(console, page)
    for change in changes:
        form = {"name": GROUP, "setting": SETTING, "token": token, **change}
        status, found, _ = console.request("/group/settings", form, headers)
        assert status == 303
    location = found["location"]
    assert f"{SETTING} {said}" in console.request(location, headers=headers)[2]
    # A link can say anything.
    for forged in (location.replace("50000", "evil"), location.partition("&seal")[0] + "&seal="):
        assert "was changed" not in console.request(forged, headers=headers)[2]
    assert "was changed" not in console.request(location)[2]


@pytest.mark.lengthy
def test_a_link_cannot_say_that_offsets_were_reset(console: RunningConsole) -> None:
    headers, token = session(console, OFFSETS)
    form = {"name": GROUP, "to": "earliest", "confirm": "1", "token": token}
    status, found, _ = console.request("/group/offsets", form, headers)
    assert status == 303
    location = found["location"]
    assert "Offsets of 1 partitions were reset" in console.request(location, headers=headers)[2]
    for forged in (location.replace("reset=1", "reset=7"), f"{OFFSETS}&reset=7", f"{OFFSETS}&reset=7&seal=x"):
        assert "were reset" not in console.request(forged, headers=headers)[2]
    assert "were reset" not in console.request(location)[2]


@pytest.mark.lengthy
def test_a_value_that_is_too_long_is_said_above_the_form(console: RunningConsole) -> None:
    form = {"name": GROUP, "setting": SETTING, "value": LONG}
    status, _, text = submit(console, f"/group/settings?name={GROUP}", "/group/settings", form)
    assert status == 400
    assert SETTING in problem_of(text)


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("topic", "said"),
    [
        ("dlq.none", "which doesn't exist: records are archived without a dead letter"),
        ("dlq.plain", "which accepts no dead letters"),
        ("dlq.good", "dead letters go to dlq.good"),
    ],
)
def test_whether_brokers_will_write_to_a_dead_letter_topic(
    console: RunningConsole, broker: Broker, topic: str, said: str
) -> None:
    broker.create_topic("dlq.plain")
    broker.create_topic("dlq.good", settings={"errors.deadletterqueue.group.enable": "true"})
    check_dead_letter_topic(console, topic, said)


@pytest.mark.lengthy
def test_a_dead_letter_topic_to_which_brokers_would_not_write_is_refused(
    console: RunningConsole, broker: Broker
) -> None:
    """As the command line does. It was saved."""
    name = "errors.deadletterqueue.topic.name"
    form = {"name": GROUP, "setting": name, "value": "orders-dead"}
    page = f"/group/settings?name={GROUP}"
    status, _, text = submit(console, page, "/group/settings", form)
    assert status == 400
    assert "begin with 'dlq.' (their errors.deadletterqueue.topic.name.prefix)" in problem_of(text)
    assert "use dlq.orders-dead" in problem_of(text)
    assert broker.call(lambda: broker.state.configs.of(Resource.GROUP, GROUP)).get(name) is None


@pytest.mark.lengthy
def test_a_dead_letter_topic_without_the_prefix_that_is_set_already(
    console: RunningConsole, broker: Broker
) -> None:
    chosen = {"errors.deadletterqueue.topic.name": "orders"}
    broker.call(lambda: broker.state.configs.replace(Resource.GROUP, GROUP, chosen))
    text = unescape(console.request(f"/group/settings?name={GROUP}")[2])
    assert "but brokers only write to names that begin with 'dlq.'" in text


@pytest.mark.lengthy
@pytest.mark.kshare_broker(settings={"errors.deadletterqueue.auto.create.topics.enable": "true"})
def test_brokers_may_create_a_dead_letter_topic(console: RunningConsole) -> None:
    check_dead_letter_topic(console, "dlq.none", "which will be created with the first dead letter")


def check_dead_letter_topic(console: RunningConsole, topic: str, said: str) -> None:
    """It is said just after the change, and later."""
    form = {"name": GROUP, "setting": "errors.deadletterqueue.topic.name", "value": topic}
    page = f"/group/settings?name={GROUP}"
    _, found, _ = submit(console, page, "/group/settings", form)
    for address in (found["location"], page):
        assert said in unescape(console.request(address)[2])

"""Names that come from the cluster: on each page, their control characters are shown and not obeyed."""

from __future__ import annotations

import re
from pathlib import Path

import anyio
import pytest

import kshare.web
from kshare import AdminClient
from kshare.log_text import escaped_lines
from kshare.testing import Broker
from kshare.web.rendering import make_environment
from tests.helpers.consoles import StartConsole, eventually

NAME = "pay\x03\ntouch\x1b[2J\x9b1m\u202exe\u2028"
TEMPLATES = Path(kshare.web.__file__).parent / "templates"
_FIELDS = re.compile(r'\b(?:value|name)="[^"]*"')


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders")
    kshare_broker.produce("orders", [b"x"] * 3, key=NAME.encode(), headers=[(NAME, NAME.encode())])

    async def create_group() -> None:
        async with AdminClient(kshare_broker.bootstrap) as admin:
            await admin.alter_share_group_offsets(NAME, {("orders", 0): 0})

    anyio.run(create_group)
    return kshare_broker


@pytest.mark.lengthy
def test_pages_show_control_characters_as_escapes(start: StartConsole) -> None:
    console = start(allow_changes=True)
    eventually(lambda: console.request("/")[2], lambda text: "touch" in text)
    encoded = "pay%03%0Atouch%1B%5B2J%C2%9B1m%E2%80%AExe%E2%80%A8"
    pages = (
        "/", f"/?q={encoded}", f"/group?name={encoded}", f"/group/settings?name={encoded}",
        f"/group/offsets?name={encoded}", "/records", f"/records?q={encoded}", "/records/topic?topic=orders",
        f"/records/topic?topic=orders&group={encoded}&key={encoded}",
        "/records/record?topic=orders&partition=0&offset=1", f"/records/topic?topic={encoded}",
        "/dead-letters", "/dead-letters/topic?topic=orders", f"/dead-letters/topic?topic=orders&source={encoded}",
        "/dead-letters/letter?topic=orders&partition=0&offset=1",
        f"/dead-letters/plan?topic=orders&do=drop-all&source={encoded}&tracker={encoded}",
        f"/dead-letters/job?id={encoded}", "/workers", f"/workers?group={encoded}", f"/wire?kind={encoded}",
    )  # fmt: skip
    for page in pages:
        text = console.request(page)[2]
        seen = _FIELDS.sub("", text)  # what fields hold comes back as it was
        assert escaped_lines(seen) == seen, page


def test_every_template_escapes_what_it_shows() -> None:
    environment = make_environment()
    assert environment.from_string("{{ name }}").render(name=NAME) == escaped_lines(NAME)
    for template in TEMPLATES.glob("*.jinja"):
        for value in re.findall(r'\bvalue="\{\{(.*?)\}\}"', template.read_text()):
            assert value.rstrip().endswith("| exact"), (
                f"{template.name}: the form would send {value} back escaped"
            )
        assert "| safe" not in template.read_text()

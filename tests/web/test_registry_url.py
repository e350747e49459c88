"""URLs of schema registries: which are refused, and what is shown without their passwords."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from kshare.errors import ConfigError
from kshare.web.config import WebConfig
from kshare.web.registry_url import has_password, without_passwords

PASSWORD = 'p@ss/wörd, "ge" heim'
ENCODED = quote(PASSWORD, safe="")
TOKEN = "a0b1c2d3e4f5"
URL = f"http://first:8081,https://ann:{ENCODED}@registry:8081/path"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://ann:geheim@registry",
        "registry:8081",
        "nonsense",
        "",
        "http://",
        "http://registry:port",
        "http://registry:99999",
        "http://ann:ge heim@registry",
        "http://registry,",
    ],
)
def test_what_is_no_url_of_a_registry_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="--schema-registry") as refused:
        WebConfig({}, schema_registry=url)
    assert "heim" not in str(refused.value)


def test_urls_of_registries() -> None:
    for url in ("http://registry", "https://[::1]:8081/path", URL):
        assert WebConfig({}, schema_registry=url).schema_registry == url
    assert has_password(URL)
    assert has_password(f"http://{TOKEN}@registry")
    assert not has_password("http://ann@registry,http://registry")


@pytest.mark.parametrize(
    "said",
    [
        PASSWORD,
        ENCODED,
        quote(PASSWORD),
        URL,
        f"ann:{PASSWORD}@registry",
        str(PASSWORD.encode()),
        json.dumps({"password": PASSWORD}),
        base64.b64encode(f"ann:{PASSWORD}".encode()).decode(),
        base64.b64encode(f"ann:{ENCODED}".encode()).decode(),
    ],
)
def test_no_form_of_a_password_is_shown(said: str) -> None:
    found = without_passwords(f"denied for {said}: 403", URL)
    assert found.startswith("denied for ")
    assert found.endswith(": 403")
    assert "***" in found
    for part in ("p@ss", "heim", base64.b64encode(b"ann:p@ss/w")[:8].decode()):
        assert part not in found


@pytest.mark.parametrize("said", [TOKEN, base64.b64encode(f"{TOKEN}:".encode()).decode()])
def test_a_token_in_place_of_a_name_is_not_shown(said: str) -> None:
    found = without_passwords(f"denied for {said}: 403", f"http://{TOKEN}@registry")
    assert TOKEN not in found
    assert found.startswith("denied for ***")


def test_other_texts_are_shown_as_they_are() -> None:
    assert without_passwords("timed out: http://ann@registry", "http://ann@registry") == (
        "timed out: http://ann@registry"
    )

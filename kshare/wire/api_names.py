"""Names of APIs and messages as users type them: looked up, with a suggestion if they are misspelt."""

from __future__ import annotations

from kshare.dissect.fields import index
from kshare.errors import ConfigError
from kshare.wording import did_you_mean

_LONGEST = 100
"""Comparing longer texts takes time, and they resemble no name."""


def api_key(text: str) -> int:
    """The key of an API, given as `78`, `ShareFetch`, `ShareFetchRequest` or `ShareFetchResponse`."""
    numbers = {str(key): key for key in index.REQUESTS}
    if text in numbers:
        return numbers[text]
    names = {name.removesuffix("Request").lower(): key for key, name in index.REQUESTS.items()}
    key = names.get(text.lower().removesuffix("request").removesuffix("response"))
    if key is None:
        raise ConfigError(f"no API is called {text!r}{nearest(text, [*index.REQUESTS.values()], 'Request')}")
    return key


def nearest(text: str, names: list[str], suffix: str) -> str:
    """The end of an error message: the most similar name, if any is similar."""
    return "" if len(text) > _LONGEST else did_you_mean(text, (name.removesuffix(suffix) for name in names))

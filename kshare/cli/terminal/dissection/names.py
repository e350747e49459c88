"""Names of APIs on the command line: completed, looked up, and suggested when misspelt."""

from __future__ import annotations

from kshare.cli.terminal.failure import Misuse
from kshare.cli.terminal.suggestion import did_you_mean


def api_names(incomplete: str) -> list[str]:
    """Shell completion."""
    from kshare.dissect.fields import index

    names = (name.removesuffix("Request") for name in index.REQUESTS.values())
    return [name for name in names if name.lower().startswith(incomplete.lower())]


def api_key(text: str) -> int:
    """The key of an API, given as `78`, `ShareFetch`, `ShareFetchRequest` or `ShareFetchResponse`."""
    from kshare.dissect.fields import index

    if text.isdecimal() and int(text) in index.REQUESTS:
        return int(text)
    names = {name.removesuffix("Request").lower(): key for key, name in index.REQUESTS.items()}
    key = names.get(text.lower().removesuffix("request").removesuffix("response"))
    if key is None:
        raise Misuse(f"no API is called {text!r}{nearest(text, [*index.REQUESTS.values()], 'Request')}")
    return key


def nearest(text: str, names: list[str], suffix: str) -> str:
    """The end of an error message: the most similar name, if any is similar."""
    return did_you_mean(text, (name.removesuffix(suffix) for name in names))

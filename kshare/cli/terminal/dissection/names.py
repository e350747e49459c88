"""Names of APIs on the command line: completed, and looked up."""

from __future__ import annotations

from kshare.cli.terminal.failure import misuse


def api_names(incomplete: str) -> list[str]:
    """Shell completion."""
    from kshare.dissect.fields import index

    names = (name.removesuffix("Request") for name in index.REQUESTS.values())
    return [name for name in names if name.lower().startswith(incomplete.lower())]


def key_of_api(text: str) -> int:
    """The key of an API. Raises Misuse if there is none of this name."""
    from kshare.wire.api_names import api_key

    with misuse():
        return api_key(text)

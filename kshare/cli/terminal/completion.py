"""Shell completion of words that are known without a cluster. Imports little, so that help and completion are fast."""

from __future__ import annotations

from collections.abc import Iterable


def api_names(incomplete: str) -> list[str]:
    from kshare.dissect.fields import index

    return beginning(incomplete, (name.removesuffix("Request") for name in index.REQUESTS.values()))


def message_kinds(incomplete: str) -> list[str]:
    from kshare.dissect.fields import index

    return beginning(incomplete, ["request", "response", "records", "state", *index.MODULES])


def error_names(incomplete: str) -> list[str]:
    from kshare.protocol.error_codes import ErrorCode

    return beginning(incomplete, ["any", *(code.name for code in ErrorCode)])


def beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.lower().startswith(incomplete.lower())]

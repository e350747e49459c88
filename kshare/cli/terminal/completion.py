"""Shell completion of words that are known without a cluster. Imports little, so that help and completion are fast."""

from __future__ import annotations

from collections.abc import Iterable


def api_names(incomplete: str) -> list[str]:
    from kshare.dissect.fields import index

    return _beginning(incomplete, (name.removesuffix("Request") for name in index.REQUESTS.values()))


def message_kinds(incomplete: str) -> list[str]:
    from kshare.dissect.fields import index

    return _beginning(incomplete, ["request", "response", "records", "state", *index.MODULES])


def error_names(incomplete: str) -> list[str]:
    from kshare.protocol.error_codes import ErrorCode

    return _beginning(incomplete, ["any", *(code.name for code in ErrorCode)])


def deserializer_names(incomplete: str) -> list[str]:
    from kshare.cli.consume.deserializers import KINDS

    return _beginning(incomplete, KINDS)


def formatter_properties(incomplete: str) -> list[str]:
    from kshare.cli.consume.record_text import PROPERTIES

    return _beginning(incomplete, (f"{name}=" for name in PROPERTIES))


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.lower().startswith(incomplete.lower())]

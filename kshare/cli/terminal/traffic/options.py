"""Options that `kshare trace` and `kshare pcap` share. Imports little, so that help and completion are fast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from typer import Option

from kshare.cli.terminal.completion import api_names, error_names

if TYPE_CHECKING:
    from kshare.cli.terminal.traffic.view import TrafficOptions


Apis: TypeAlias = Annotated[
    list[str] | None,
    Option(
        "--api",
        metavar="API",
        help="Only this API, by name or number; may be repeated.",
        autocompletion=api_names,
    ),
]
Topics: TypeAlias = Annotated[
    list[str] | None,
    Option("--topic", "-t", metavar="TOPIC", help="Only exchanges that mention this topic, by name or id."),
]
Groups: TypeAlias = Annotated[
    list[str] | None, Option("--group", "-g", metavar="GROUP", help="Only exchanges that mention this group.")
]
Errors: TypeAlias = Annotated[
    list[str] | None,
    Option(
        "--error",
        metavar="ERROR",
        help="Only exchanges that failed with this error; `any` for all errors.",
        autocompletion=error_names,
    ),
]
Verbose: TypeAlias = Annotated[
    bool, Option("--verbose", "-v", help="Show every field of requests and responses.")
]
Json: TypeAlias = Annotated[bool, Option("--json", help="Print one JSON object per line.")]
Lint: TypeAlias = Annotated[bool, Option("--lint", help="Show only linter findings and the summary.")]


def traffic_options(
    apis: list[str] | None,
    topics: list[str] | None,
    groups: list[str] | None,
    errors: list[str] | None,
    is_verbose: bool,
    is_json: bool,
    only_findings: bool,
) -> TrafficOptions:
    """Rejects names that can't occur, which would silently match nothing."""
    from kshare.cli.terminal.arguments import require_whole_topics
    from kshare.cli.terminal.failure import misuse
    from kshare.cli.terminal.traffic.view import TrafficOptions
    from kshare.traffic import Filter
    from kshare.wire.api_names import api_key

    # An id is spelled like a name, and may be shortened as in what is shown.
    require_whole_topics("--topic", [name.removesuffix("…") for name in topics or ()])

    for name in errors or ():
        if not error_names(name) and not name.lstrip("-").isdigit():
            raise typer.BadParameter(f"--error {name}: not a Kafka error; `any` stands for all errors")
    with misuse():
        keys = tuple(str(api_key(name)) for name in apis or ())
    wanted = Filter(keys, tuple(topics or ()), tuple(groups or ()), tuple(errors or ()))
    return TrafficOptions(wanted, is_json, is_verbose, only_findings)

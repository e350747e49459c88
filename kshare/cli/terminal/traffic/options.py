"""Options that `kshare trace` and `kshare pcap` share. Light, so that help and completion come at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from kshare.cli.terminal.dissection.names import api_key, api_names

if TYPE_CHECKING:
    from kshare.cli.terminal.traffic.view import Show


def error_names(incomplete: str) -> list[str]:
    """For completion in the shell."""
    from kshare.protocol.error_codes import ErrorCode

    names = ["any", *(code.name for code in ErrorCode)]
    return [name for name in names if name.lower().startswith(incomplete.lower())]


Apis: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--api",
        metavar="API",
        help="Only this API, by name or number; may be given again.",
        autocompletion=api_names,
    ),
]
Topics: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="Only what names this topic, by its name or id."),
]
Groups: TypeAlias = Annotated[
    list[str] | None, typer.Option("--group", metavar="GROUP", help="Only what names this group.")
]
Errors: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--error",
        metavar="ERROR",
        help="Only what failed with this error, or with any.",
        autocompletion=error_names,
    ),
]
Verbose: TypeAlias = Annotated[
    bool, typer.Option("--verbose", "-v", help="Every field of every request and answer.")
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="A JSON object a line.")]
Lint: TypeAlias = Annotated[
    bool, typer.Option("--lint", help="No exchanges: what the linter finds, and the summary.")
]


def make_show(
    apis: list[str] | None,
    topics: list[str] | None,
    groups: list[str] | None,
    errors: list[str] | None,
    is_verbose: bool,
    is_json: bool,
    only_findings: bool,
) -> Show:
    """Refuses names that can't occur: they would show nothing, and no reason why."""
    from kshare.cli.terminal.traffic.view import Show
    from kshare.traffic import Filter

    for name in errors or ():
        if not error_names(name) and not name.lstrip("-").isdigit():
            raise typer.BadParameter(f"--error {name}: Kafka has no such error; `any` stands for all of them")
    wanted = Filter(
        tuple(str(api_key(one)) for one in apis or ()),
        tuple(topics or ()),
        tuple(groups or ()),
        tuple(errors or ()),
    )
    return Show(wanted, is_json, is_verbose, only_findings)

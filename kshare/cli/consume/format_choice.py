"""Chooses the output format of `kshare consume` from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from kshare.cli.cluster.connection import read_properties
from kshare.cli.consume.format_string import FormatString
from kshare.cli.consume.record_text import JsonFormat, KafkaFormat, Readers, RecordFormat
from kshare.cli.terminal.arguments import settings

_TO_DECIDE_ON = r"%t[%p]@%o  %D  delivery %d  key %k  headers %h\n%s\n"


def form(
    text: str | None,
    is_json: bool,
    key: str | None,
    value: str | None,
    properties: Sequence[str],
    file: Path | None,
    is_interactive: bool,
) -> RecordFormat:
    """The output format. Deserializers apply to all formats."""
    named_values = read_properties(file) if file else {}
    named_values |= settings(properties)
    readers = Readers.of(
        key or named_values.get("key.deserializer"),
        value or named_values.get("value.deserializer"),
        named_values.get("headers.deserializer"),
    )
    options = {"--format": text is not None, "--json": is_json, "--formatter-property": bool(named_values)}
    chosen = [name for name, is_on in options.items() if is_on]
    if len(chosen) > 1 and any(name.startswith("print.") for name in named_values):
        raise typer.BadParameter(f"{' and '.join(chosen)} exclude each other")
    if text is not None and is_json:
        raise typer.BadParameter("--format and --json exclude each other")
    if text is not None:
        return FormatString(text, readers, named_values.get("null.literal", "null"))
    if is_json:
        return JsonFormat(readers)
    if is_interactive and not named_values:
        return FormatString(_TO_DECIDE_ON, readers)
    return KafkaFormat(named_values, readers)

"""Names of the styles of text: what a part of a line is. Terminals and pages choose the colours."""

from __future__ import annotations

STYLES = frozenset(
    {
        "plain",
        "faint",
        "name",
        "note",
        "error",
        # values, by type
        "text",
        "id",
        "bytes",
        "number",
        # what a share consumer does
        "acquired",
        "acknowledged",
        # findings, by severity: the rule, and the sentence after it
        "forbidden",
        "harmful",
        "forbidden-text",
        "harmful-text",
    }
)

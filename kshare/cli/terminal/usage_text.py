"""Words the errors of command lines: recent releases of typer use pydantic, whose texts are for programmers."""

from __future__ import annotations

from typing import Any


def usage_text(problem: Any) -> str:
    """The text of typer's error."""
    errors = getattr(problem.__cause__, "errors", None)
    if errors is not None and hasattr(problem, "message"):
        problem.message = _value_text(errors()[0], problem.message)
    return str(getattr(problem, "format_message", problem.__str__)())


def _value_text(error: dict[str, Any], text: str) -> str:
    """The reason why a value is invalid. `text` is pydantic's."""
    bounds = error.get("ctx", {})
    match error["type"]:
        case "int_parsing" | "int_from_float" | "int_type" | "int_parsing_size":
            return f"{error['input']!r} is not a whole number"
        case "float_parsing" | "float_type":
            return f"{error['input']!r} is not a number"
        case "greater_than_equal":
            return f"must be {bounds['ge']:g} or more"
        case "less_than_equal":
            return f"must be {bounds['le']:g} or less"
        case "value_error":
            return text.removeprefix("Value error, ").removesuffix(".")
    return text

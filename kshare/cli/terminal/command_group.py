"""Command groups such as `kshare groups`."""

from __future__ import annotations

import typer
from typer.core import TyperGroup


def command_group(help_text: str, kind: type[TyperGroup] = TyperGroup) -> typer.Typer:
    """A group of subcommands. Without a subcommand it shows its help, as `kshare` does."""
    group = typer.Typer(help=help_text, rich_markup_mode=None, cls=kind)
    group.callback(invoke_without_command=True)(_help_without_command)
    return group


def _help_without_command(context: typer.Context) -> None:
    """Typer's own option for this counts as a usage error."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())

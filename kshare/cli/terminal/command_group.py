"""Command groups such as `kshare groups`."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

_LONGEST = 200


class WrappingGroup(TyperGroup):
    """Its help shows whole sentences about the subcommands, on several lines. Click cuts them to one."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = []
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                rows.append((name, command.get_short_help_str(_LONGEST)))
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def command_group(help_text: str, kind: type[WrappingGroup] = WrappingGroup) -> typer.Typer:
    """A group of subcommands. Without a subcommand it shows its help, as `kshare` does."""
    group = typer.Typer(help=help_text, rich_markup_mode=None, cls=kind)
    group.callback(invoke_without_command=True)(_help_without_command)
    return group


def _help_without_command(context: typer.Context) -> None:
    """Typer's own option for this counts as a usage error."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())

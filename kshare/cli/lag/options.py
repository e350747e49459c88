"""Options of `kshare lag`."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Option
from typer.core import TyperCommand

from kshare.cli.cluster.options import Json, OnlyGroups, Properties, Server, cluster_of

_WATCH = "--watch"
_USUAL_INTERVAL = "2"
_SHORTEST_INTERVAL_S, _LONGEST_INTERVAL_S = 0.1, 86_400


class LagCommand(TyperCommand):
    """Lets `--watch` be given without a value, which typer doesn't support."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for at, word in enumerate(args):
            if word == _WATCH and (at + 1 == len(args) or args[at + 1].startswith("-")):
                args = [*args[: at + 1], _USUAL_INTERVAL, *args[at + 1 :]]
                break
        return super().parse_args(ctx, args)


def lag(
    server: Server = None,
    properties: Properties = None,
    group: OnlyGroups = None,
    topic: Annotated[
        list[str] | None,
        Option("--topic", "-t", metavar="TOPIC[:PARTITION,...]", help="Only this topic; may be repeated."),
    ] = None,
    interval: Annotated[
        float | None,
        Option(
            _WATCH,
            min=_SHORTEST_INTERVAL_S,
            max=_LONGEST_INTERVAL_S,
            metavar="[SECONDS]",
            help=f"Update every SECONDS (default: {_USUAL_INTERVAL}), until Ctrl-C.",
        ),
    ] = None,
    is_json: Json = False,
) -> None:
    """Show the lag of share groups, one line for each group.

    With --watch and --json, each update is one line of JSON.
    """
    from kshare.cli.lag.run import run_lag
    from kshare.cli.terminal.arguments import chosen_topics

    run_lag(cluster_of(server, properties), group or [], chosen_topics(topic or []), interval, is_json)

"""Options of `kshare worker`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from typer import Argument, Option

from kshare.cli.cluster.options import Json, Properties, Server
from kshare.cli.terminal.command_group import WrappingGroup, command_group
from kshare.wording import did_you_mean

_RUN = "run"


class WorkerGroup(WrappingGroup):
    """Takes `kshare worker shop:app` for `kshare worker run shop:app`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            is_command = len(args) > 1 and not args[1].startswith("-")  # workers are named one at a time
            if is_command and (hint := did_you_mean(args[0], self.commands)):
                ctx.fail(f"no command {args[0]!r}{hint}")
            args = [_RUN, *args]
        return super().parse_args(ctx, args)


class Backend(StrEnum):
    ASYNCIO = "asyncio"
    TRIO = "trio"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


App: TypeAlias = Annotated[
    str,
    Argument(
        metavar="MODULE:WORKER", help="The worker, as in shop.orders:worker. Without a name: worker or app."
    ),
]
ConfigFile: TypeAlias = Annotated[
    Path | None,
    Option(
        "--config",
        metavar="FILE",
        help="A TOML file that configures the worker. The environment takes precedence over it.",
    ),
]

worker = command_group(
    "Run the handlers of a worker. `kshare worker shop:app` is short for `kshare worker run shop:app`.",
    WorkerGroup,
)


@worker.command(_RUN, short_help="Run a worker until Ctrl-C or SIGTERM.")
def run_(
    app: App,
    server: Server = None,
    properties: Properties = None,
    config: ConfigFile = None,
    workers: Annotated[
        int | None,
        Option(
            "--workers",
            "-w",
            min=1,
            max=1000,
            metavar="N",
            help="Run N processes, and restart those that crash.",
        ),
    ] = None,
    threads: Annotated[
        int,
        Option(
            min=1, max=1000, metavar="N", help="Run N threads in each process, on a Python without a GIL."
        ),
    ] = 1,
    reload: Annotated[
        bool, Option("--reload", help="Restart when source files change, for development.")
    ] = False,
    drain_timeout: Annotated[
        float | None,
        Option(min=0, metavar="SECONDS", help="How long running handlers get when the worker stops."),
    ] = None,
    announce: Annotated[
        str | None,
        Option(metavar="TOPIC", help="Announce each process in this topic, so that consoles find it."),
    ] = None,
    backend: Annotated[Backend, Option(help="The event loop.")] = Backend.ASYNCIO,
    log_level: Annotated[LogLevel | None, Option(help="What kshare logs. Default: info.")] = None,
    place: Annotated[str | None, Option(hidden=True)] = None,
) -> int:
    """Run a worker until Ctrl-C or SIGTERM: then it acquires nothing more, and finishes what is in hand.

    A second signal cancels running handlers, and their records are released.
    """
    from kshare.cli.worker.app_options import AppOptions
    from kshare.cli.worker.run import ChildPlace, RunOptions, run_worker

    return run_worker(
        AppOptions(app, server, properties, config, drain_timeout, announce),
        RunOptions(backend.value, workers, threads, reload, None if log_level is None else log_level.value),
        None if place is None else ChildPlace.parse(place),
    )


@worker.command("check", short_help="Validate a worker against a live cluster.")
def check(
    app: App,
    server: Server = None,
    properties: Properties = None,
    config: ConfigFile = None,
    workers: Annotated[
        int, Option("--workers", "-w", min=1, max=1000, metavar="N", help="How many processes will run.")
    ] = 1,
    is_json: Json = False,
) -> None:
    """Validate a worker against a live cluster: topics, groups, permissions, and the limits of its groups.

    Changes nothing and joins no group. The exit code is 1 if there is a problem.
    """
    from kshare.cli.worker.app_options import AppOptions
    from kshare.cli.worker.check import check_worker

    check_worker(AppOptions(app, server, properties, config), workers, is_json)

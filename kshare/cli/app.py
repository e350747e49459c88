"""Registers all commands, and reports their failures as one line on stderr, never as a traceback.

`<command>/options.py` holds a command's signature and help. It imports the code that does the work only when the
command runs, so that help and completion are fast.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Annotated

import typer
from typer import Option

from kshare.cli.broker import options as broker
from kshare.cli.consume.options import consume
from kshare.cli.decode.options import decode
from kshare.cli.dlq.options import dlq
from kshare.cli.doctor.options import doctor
from kshare.cli.encode.options import encode
from kshare.cli.exporter.options import exporter
from kshare.cli.groups.options import groups
from kshare.cli.lag.options import LagCommand, lag
from kshare.cli.pcap.options import pcap
from kshare.cli.produce.options import produce
from kshare.cli.spark.options import spark
from kshare.cli.state.options import state
from kshare.cli.terminal.failure import ClosedPipe, Failure, Misuse, usage_text
from kshare.cli.top.options import top
from kshare.cli.topics.options import topics
from kshare.cli.trace.options import trace
from kshare.cli.web.options import web
from kshare.cli.worker.options import worker
from kshare.errors import ConfigError, KshareError
from kshare.log_text import escaped

_ABORTED = 130
_USAGE = 2
# Typer doesn't export it, and its module differs between releases.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
_AS_IT_COMES = {"ignore_unknown_options": True, "allow_extra_args": True}

app = typer.Typer(
    name="kshare",
    help="Tools for Kafka share groups.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("broker", add_help_option=False, context_settings=_AS_IT_COMES)
def _broker(context: typer.Context) -> int:
    """Run an embedded Kafka broker, without a JVM."""
    return broker.run(context.args)


app.command("decode")(decode)
app.command("encode", short_help="Encode JSON into bytes of the Kafka protocol.")(encode)
app.command("doctor", short_help="Find problems of share groups and suggest fixes.")(doctor)
app.command("top", short_help="Watch the lag, redeliveries and rates of share groups.")(top)
app.command("lag", cls=LagCommand, short_help="Show the lag of share groups, one line for each.")(lag)
app.command("exporter", short_help="Serve metrics of share groups to Prometheus and KEDA.")(exporter)
app.command("consume", short_help="Consume records as a share group member and print them.")(consume)
app.command("produce", short_help="Write records from input, or generated ones.")(produce)
app.command("state", short_help="Show the stored state of share-partitions.")(state)
app.command("trace", short_help="Show Kafka traffic, as a proxy between clients and brokers.")(trace)
app.command("web", short_help="Show share groups in the browser.")(web)
app.command("pcap", short_help="Show Kafka traffic from a network capture.")(pcap)
app.add_typer(groups, name="groups", short_help="List, describe, reset, configure and delete share groups.")
app.add_typer(topics, name="topics", short_help="List, create and delete topics.")
app.add_typer(worker, name="worker", short_help="Run the handlers of a worker, and check them.")
app.add_typer(
    spark, name="spark", short_help="Show the journals of Spark queries, and write back staged records."
)
app.add_typer(dlq, name="dlq", short_help="List, show, redrive and drop dead letters.")


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from kshare.installation import describe_installation

        typer.echo(describe_installation())
        raise typer.Exit


@app.callback()
def _commands(
    version: Annotated[
        bool,
        Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show the version, and whether the compiled modules are used.",
        ),
    ] = False,
) -> None:
    """With a callback, typer treats even a single command as one of several."""


@functools.cache
def _command() -> Callable[..., object]:
    """Cached for all runs in a process, because typer inspects every option of every command."""
    return typer.main.get_command(app)


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    try:
        code = _command()(arguments or ["--help"], prog_name="kshare", standalone_mode=False)
    except typer.Abort:
        return _ABORTED
    except ClosedPipe:
        raise BrokenPipeError from None
    except _UsageError as problem:
        return _say(usage_text(problem), code=_USAGE)
    except Misuse as problem:
        return _say(*problem.lines, code=_USAGE)
    except (Failure, ConfigError) as problem:
        return _say(*problem.lines, code=1)
    except KshareError as problem:
        return _say(str(problem), code=1)
    except OSError as problem:
        return _say(f"{problem.filename or 'input or output'}: {problem.strerror or problem}", code=1)
    except ModuleNotFoundError:
        raise
    except Exception as bug:
        return _say(f"this is a bug in kshare: {type(bug).__name__}: {bug}", code=1)
    return code if isinstance(code, int) else 0


def _say(*lines: str, code: int) -> int:
    sys.stdout.flush()
    text = "\n".join(escaped(" ".join(line.split())) for line in lines)
    sys.stderr.write(f"kshare: {text}\n")
    return code

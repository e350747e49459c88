"""Does the same with several groups or topics. If one of them fails, the others are still processed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from kshare.admin.client import AdminClient
from kshare.cli.cluster.connection import Cluster
from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.table import print_done
from kshare.errors import KshareError


def for_each_name(
    cluster: Cluster,
    names: Sequence[str],
    step: Callable[[AdminClient, str], Awaitable[None]],
    explained: Callable[[AdminClient, KshareError, str], Awaitable[Exception]],
    verb: str,
    is_json: bool,
) -> None:
    """`explained`: what to say in place of an error. Raises Failure if there was one."""
    done: list[str] = []
    problems: list[str] = []

    async def work(admin: AdminClient) -> None:
        for name in dict.fromkeys(names):
            try:
                await step(admin, name)
            except KshareError as error:
                problems.append(str(await explained(admin, error, name)))
            else:
                done.append(name)

    cluster.run(work)
    if is_json or done:
        print_done(is_json, {verb: done}, f"{verb} {', '.join(done)}")
    if problems:
        raise Failure("; ".join(problems))

"""Fault injection: what happens to which requests, instead of or in addition to the usual response.

    fault = faults.add(ShareFetchRequest, times=1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    faults.add(ProduceRequest, client="loader", after_ms=500, cut_after=20)

Decides which fault applies to a request: the first that matches and isn't used up. The request loop executes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Never

from kshare.errors import ConfigError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.message import Message, Request
from kshare.wording import suggestion

if TYPE_CHECKING:
    from kshare.broker.connection import Call


@dataclass(slots=True, eq=False)
class Fault:
    """An injected fault. `Faults.add` describes the fields."""

    api_key: int | None
    """The API of the requests. None: any."""
    times: int | None
    skip: int
    node: int | None
    client: str | None
    when: Callable[[Any], bool] | None

    before_ms: int
    do: Callable[[], None] | None
    hang_up: bool
    swallow: bool
    error: ErrorCode | None
    change: Callable[[Any], None] | None
    after_ms: int
    mute: bool
    cut_after: int | None

    hits: int = 0
    """How many requests it was applied to."""

    def fits(self, request: Message, call: Call) -> bool:
        return (
            self.times != 0
            and self.api_key in (None, call.api_key)
            and self.node in (None, call.node.id)
            and self.client in (None, call.client_id)
            and (self.when is None or self._asked(self.when, request))
        )

    def _asked(self, when: Callable[[Any], bool], request: Message) -> bool:
        with naming("when", request):
            return when(request)

    def stop(self) -> None:
        """End this fault: it applies to no further requests."""
        self.times = 0


@contextmanager
def naming(function: str, request: Message) -> Iterator[None]:
    """Let errors of a function that a test gave say whose they are."""
    try:
        yield
    except Exception as error:
        raise ConfigError(
            f"the function {function!r} of a fault raised {error!r} for {type(request).__name__}"
        ) from error


_ARGUMENTS = [field.name for field in fields(Fault) if field.name not in ("api_key", "hits")]
_MAY_BE_NONE = ("times", "node", "cut_after")


def _suggested(error: object) -> str:
    """An error code may have been given as its number or its name."""
    for code in ErrorCode:
        if error in (code.value, code.name):
            return f": write ErrorCode.{code.name}"
    return ""


class Faults:
    """All faults of a cluster, in the order in which they were added."""

    def __init__(self, nodes: Collection[int]) -> None:
        """`nodes` are the numbers of the cluster's nodes, which may be added later."""
        self._nodes = nodes
        self._all: list[Fault] = []

    def add(
        self,
        api: type[Request[Any]] | None = None,
        *,
        times: int | None = 1,
        skip: int = 0,
        node: int | None = None,
        client: str | None = None,
        when: Callable[[Any], bool] | None = None,
        before_ms: int = 0,
        do: Callable[[], None] | None = None,
        hang_up: bool = False,
        swallow: bool = False,
        error: ErrorCode | None = None,
        change: Callable[[Any], None] | None = None,
        after_ms: int = 0,
        mute: bool = False,
        cut_after: int | None = None,
        **unknown: Never,
    ) -> Fault:
        """Inject a fault, until it is used up or stopped. If several match a request, the one added first applies.

        These arguments say which requests it applies to:

        `api`: the class of the requests, such as `kshare.protocol.messages.ShareFetchRequest`. None: all requests.

        `times`: how many requests it applies to. None: all, until it is stopped.

        `skip`: how many matching requests to leave alone first.

        `node`: the id of the broker (1, 2, ...) that gets the request. None: any.

        `client`: the client id. None: any.

        `when`: a function that is called with the request and returns whether it matches.

        These say what happens to them, in this order:

        `before_ms`: wait for this many milliseconds of the broker's clock before the request is executed.

        `do`: call this function in the broker's thread, for example to move a leader or advance the clock.

        `hang_up`: close the connection. The request isn't executed.

        `swallow`: send no response. The request isn't executed, and the connection stays open.

        `error`: respond with this error code. The request isn't executed.

        `change`: call this function with the response, which it may change.

        `after_ms`: wait for this many milliseconds of the broker's clock after the request was executed.

        `mute`: send no response. The request was executed, and the connection stays open.

        `cut_after`: send this many bytes of the response, then close the connection.

        Returns the fault: its `hits` is the number of requests that it was applied to, and `stop()` ends it. Raises
        ConfigError if an argument is invalid, or if responses of this API can't contain `error`.
        """
        for name in unknown:
            advice = suggestion(name, _ARGUMENTS) or f"the arguments are {', '.join(_ARGUMENTS)}"
            raise ConfigError(f"there is no argument {name!r}; {advice}")
        if api is not None and not (isinstance(api, type) and issubclass(api, Request)):
            raise ConfigError(
                f"api must be a request class, such as kshare.protocol.messages.ShareFetchRequest, not {api!r}"
            )
        for name, number, least in (
            ("times", times, 1),
            ("skip", skip, 0),
            ("node", node, 0),
            ("before_ms", before_ms, 0),
            ("after_ms", after_ms, 0),
            ("cut_after", cut_after, 0),
        ):
            if (type(number) is not int or number < least) and not (number is None and name in _MAY_BE_NONE):
                raise ConfigError(f"{name} must be a whole number, {least} or more, not {number!r}")
        if client is not None and not isinstance(client, str):
            raise ConfigError(f"client must be a client id, not {client!r}")
        for name, function in (("when", when), ("do", do), ("change", change)):
            if function is not None and not callable(function):
                raise ConfigError(f"{name} must be a function, not {function!r}")
        for name, flag in (("hang_up", hang_up), ("swallow", swallow), ("mute", mute)):
            if not isinstance(flag, bool):
                raise ConfigError(f"{name} must be True or False, not {flag!r}")
        if error is not None and not isinstance(error, ErrorCode):
            raise ConfigError(
                f"error must be a kshare.protocol.error_codes.ErrorCode, not {error!r}{_suggested(error)}"
            )
        if node is not None and node not in self._nodes:
            count = len(self._nodes)
            raise ConfigError(
                f"there is no broker {node}: the cluster has {count} broker{'' if count == 1 else 's'}"
            )
        ends = {"hang_up": hang_up, "swallow": swallow, "mute": mute, "cut_after": cut_after is not None}
        chosen = [name for name, is_chosen in ends.items() if is_chosen]
        if len(chosen) > 1:
            raise ConfigError(f"{' and '.join(chosen)} exclude each other: choose one")
        if times is not None and not (
            chosen or before_ms or after_ms or do is not None or error is not None or change is not None
        ):
            raise ConfigError(
                "the fault has no effect: add one, such as hang_up=True, or times=None to only count requests"
            )
        if api is not None and error is not None:
            # Rarely needed, and it imports a dozen messages.
            from kshare.broker.error_responses import check_error_response

            check_error_response(api)
        key = None if api is None else api.API_KEY
        effects = before_ms, do, hang_up, swallow, error, change, after_ms, mute, cut_after
        fault = Fault(key, times, skip, node, client, when, *effects)
        self._all.append(fault)
        return fault

    def stop(self) -> None:
        """End all faults."""
        for fault in self._all:
            fault.stop()
        self._all.clear()

    def take(self, request: Message, call: Call) -> Fault | None:
        """The fault that applies to this request. Counts it as a hit."""
        for fault in self._all:
            if fault.fits(request, call):
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.hits += 1
                if fault.times is not None:
                    fault.times -= 1
                    if not fault.times:
                        self._all.remove(fault)
                return fault
        return None


def corrupt_records(response: Any) -> None:
    """For `change`: flip a bit in the last byte of the first records in the response to a (share) fetch."""
    for topic in response.responses:
        for partition in topic.partitions:
            if partition.records:
                records = bytearray(partition.records)
                records[-1] ^= 1
                partition.records = bytes(records)
                return

"""What happens around a call with a key: claim, wait, finish, abandon. Shared by async and plain functions.

A key of the store is a hash over the function's name and what identifies the call. So it has the same length and
alphabet in every database, and the store contains no names or addresses that the application uses as keys.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from kshare.errors import ClaimLost, ConfigError, InProgress, StoreFailed
from kshare.idempotency.store import ClaimResponse, ClaimState, IdempotencyStore
from kshare.options.checks import is_number
from kshare.options.mistakes import Mistakes

Identify = Callable[..., str | bytes]
Serialize = Callable[[Any], bytes]
Deserialize = Callable[[bytes], Any]

STORE_DEADLINE_S = 30.0
"""How long a call to a store may keep a cancellation waiting."""
FIRST_LOOK_S, LONGEST_LOOK_S = 0.05, 1.0
"""While a call waits for another, it looks this often; the interval doubles."""
CLAIMS_PER_PURGE = 1000


def result_as_json(result: Any) -> bytes:
    return json.dumps(result).encode()


class Ticket(NamedTuple):
    """One call."""

    key: str
    owner: str


@dataclass
class Guard:
    """Everything that is known about a decorated function."""

    store: IdempotencyStore
    function: str
    key: Identify | None
    in_progress_timeout: float
    keep: float
    wait: float
    serialize: Serialize
    deserialize: Deserialize
    _claims: int = 0

    def __post_init__(self) -> None:
        mistakes = Mistakes()
        for option in ("in_progress_timeout", "keep"):
            seconds = getattr(self, option)
            if not is_number(seconds) or seconds <= 0:
                mistakes.add(f"{self.function}: {option}={seconds}: use a number of seconds above 0.")
        if not is_number(self.wait) or self.wait < 0:
            mistakes.add(
                f"{self.function}: wait={self.wait}: use a number of seconds, or 0 to not wait at all."
            )
        mistakes.raise_all()

    def ticket(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Ticket:
        if self.key is None:
            identity: object = coordinates(self.function, [*arguments, *named.values()])
        else:
            identity = self.key(*arguments, **named)
        return Ticket(store_key(self.function, identity), secrets.token_hex(16))

    async def claim(self, ticket: Ticket) -> ClaimResponse:
        """Claim the key, or return the response with the stored result. Waits while another call is in progress."""
        try:
            response = await self._claim_in_time(ticket)
        except GeneratorExit:
            raise
        except BaseException as error:
            if not isinstance(error, StoreFailed) or error.is_open:
                await self.abandon(ticket, error)
            await checkpoint_if_cancelled()  # a cancellation that came meanwhile is what callers wait for
            raise
        if response.state is ClaimState.IN_PROGRESS:
            raise InProgress(self.function, response.expires_in)
        return response

    async def _claim_in_time(self, ticket: Ticket) -> ClaimResponse:
        deadline = anyio.current_time() + self.wait
        pause = FIRST_LOOK_S
        while True:
            response = self._checked(
                await self.store.claim(ticket.key, ticket.owner, self.in_progress_timeout)
            )
            left = deadline - anyio.current_time()
            if response.state is ClaimState.CLAIMED:
                await self._purge_sometimes()
                return response
            if response.state is ClaimState.DONE or left <= 0:
                return response
            await anyio.sleep(min(pause, left, response.expires_in))
            pause = min(2 * pause, LONGEST_LOOK_S)

    def _checked(self, response: ClaimResponse) -> ClaimResponse:
        """Stores may be users' own. None of their responses may make a worker hold a record forever."""
        try:
            if response.state is not ClaimState.IN_PROGRESS:
                return response
            seconds = max(float(response.expires_in), 0.0)  # it may have expired meanwhile
        except (AttributeError, TypeError, ValueError, OverflowError):
            seconds = float("nan")
        if not is_number(seconds):
            raise StoreFailed(
                f"{self.function}: {type(self.store).__name__} responded to a claim with {response!r:.200}. It must "
                "respond with a ClaimResponse, and if the key is in progress, with expires_in as a "
                "finite number of seconds."
            )
        return ClaimResponse(ClaimState.IN_PROGRESS, expires_in=seconds)

    async def _purge_sometimes(self) -> None:
        """Stores don't grow without end. That a purge failed is no reason not to run the function."""
        self._claims += 1
        if self._claims % CLAIMS_PER_PURGE == 0:
            with contextlib.suppress(StoreFailed):
                await self.store.purge()

    def stored_result(self, response: ClaimResponse) -> Any:
        try:
            return self.deserialize(response.result)
        except Exception as error:
            raise StoreFailed(
                f"{self.function}: the stored result of an earlier call can't be read ({type(error).__name__}). The "
                "function wasn't run again. Was it stored by another version of the program?"
            ) from error

    async def finish(self, ticket: Ticket, result: Any) -> None:
        """Store the result. A cancellation waits meanwhile, because the function has run."""
        try:
            data = self.serialize(result)
        except Exception as error:
            raise StoreFailed(
                f"{self.function}: its result, of type {type(result).__name__}, can't be serialized "
                f"({type(error).__name__}), so it can't be stored. Return what JSON can represent, or pass serialize= "
                "and deserialize=."
            ) from error
        try:
            is_stored = await self._finish_in_time(ticket, data)
        except Exception:
            await checkpoint_if_cancelled()  # see `claim`
            raise
        if not is_stored:
            raise ClaimLost(self.function, self.in_progress_timeout)

    async def _finish_in_time(self, ticket: Ticket, data: bytes) -> bool:
        with anyio.move_on_after(STORE_DEADLINE_S, shield=True):
            return await self.store.finish(ticket.key, ticket.owner, data, self.keep)
        raise StoreFailed(f"{self.function}: its result wasn't stored within {STORE_DEADLINE_S:g} s.")

    async def abandon(self, ticket: Ticket, error: BaseException) -> None:
        """Remove the claim, so that a redelivery runs the function. If that fails, the claim expires."""
        why = await self._remove_claim(ticket)
        if why:
            error.add_note(
                f"The claim of {self.function} couldn't be removed ({why}). It expires "
                f"{self.in_progress_timeout:g} s after it was made."
            )

    async def give_up(self, ticket: Ticket) -> None:
        """The function has returned without a result: remove the claim. If that fails, the claim expires; until then,
        a redelivery waits for it."""
        await self._remove_claim(ticket)

    async def _remove_claim(self, ticket: Ticket) -> str:
        """Returns why that failed, if it did."""
        try:
            with anyio.move_on_after(STORE_DEADLINE_S, shield=True):
                await self.store.abandon(ticket.key, ticket.owner)
                return ""
            return f"no response within {STORE_DEADLINE_S:g} s"
        except Exception as failure:
            return f"{type(failure).__name__}: {failure}"


def store_key(function: str, identity: object) -> str:
    """The key in the store. A string and its UTF-8 bytes are the same key."""
    if isinstance(identity, str):
        identity = identity.encode("utf-8", "surrogatepass")
    if not isinstance(identity, bytes) or not identity:
        got = "an empty one" if isinstance(identity, bytes) else type(identity).__name__
        raise ConfigError(
            f"{function}: key= must return a string or bytes that aren't empty, and returned {got}. Two calls with "
            "the same key count as one."
        )
    name = function.encode()
    return hashlib.sha256(b"%d:%b%b" % (len(name), name, identity)).hexdigest()


def coordinates(function: str, arguments: Iterable[object]) -> str:
    """Topic, partition and offset of the first argument that has them."""
    for argument in arguments:
        topic = getattr(argument, "topic", None)
        partition = getattr(argument, "partition", None)
        offset = getattr(argument, "offset", None)
        if isinstance(topic, str) and isinstance(partition, int) and isinstance(offset, int):
            return f"{topic}/{partition}/{offset}"
    raise ConfigError(
        f"{function}: no argument has a topic, a partition and an offset, so the call can't be recognized when it is "
        "repeated. Pass key=, a function of the arguments that returns a string or bytes."
    )

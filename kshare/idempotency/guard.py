"""What happens around a call with a key: claim, wait, finish, abandon. Shared by async and plain functions."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from kshare.errors import ClaimLost, InProgress, StoreFailed
from kshare.idempotency.keys import coordinates, store_key
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


class Guard:
    """Everything that is known about a decorated function."""

    def __init__(
        self,
        store: IdempotencyStore,
        function: str,
        *,
        key: Identify | None,
        in_progress_timeout: float,
        keep: float,
        wait: float,
        serialize: Serialize,
        deserialize: Deserialize,
    ) -> None:
        mistakes = Mistakes()
        for option, seconds in (("in_progress_timeout", in_progress_timeout), ("keep", keep)):
            if not is_number(seconds) or seconds <= 0:
                mistakes.add(f"{function}: {option}={seconds}: use a number of seconds above 0.")
        if not is_number(wait) or wait < 0:
            mistakes.add(f"{function}: wait={wait}: use a number of seconds, or 0 to not wait at all.")
        mistakes.raise_all()
        self.function = function
        self._store = store
        self._key = key
        self._in_progress_timeout = in_progress_timeout
        self._keep = keep
        self._wait = wait
        self._serialize = serialize
        self._deserialize = deserialize
        self._claims = 0

    def ticket(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Ticket:
        if self._key is None:
            identity: object = coordinates(self.function, [*arguments, *named.values()])
        else:
            identity = self._key(*arguments, **named)
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
        deadline = anyio.current_time() + self._wait
        pause = FIRST_LOOK_S
        while True:
            response = self._checked(
                await self._store.claim(ticket.key, ticket.owner, self._in_progress_timeout)
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
                f"{self.function}: {type(self._store).__name__} responded to a claim with {response!r:.200}. It must "
                "respond with a ClaimResponse, and if the key is in progress, with expires_in as a "
                "finite number of seconds."
            )
        return ClaimResponse(ClaimState.IN_PROGRESS, expires_in=seconds)

    async def _purge_sometimes(self) -> None:
        """Stores don't grow without end. That a purge failed is no reason not to run the function."""
        self._claims += 1
        if self._claims % CLAIMS_PER_PURGE == 0:
            with contextlib.suppress(StoreFailed):
                await self._store.purge()

    def stored_result(self, response: ClaimResponse) -> Any:
        try:
            return self._deserialize(response.result)
        except Exception as error:
            raise StoreFailed(
                f"{self.function}: the stored result of an earlier call can't be read ({type(error).__name__}). The "
                "function wasn't run again. Was it stored by another version of the program?"
            ) from error

    async def finish(self, ticket: Ticket, result: Any) -> None:
        """Store the result. A cancellation waits meanwhile, because the function has run."""
        try:
            data = self._serialize(result)
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
            raise ClaimLost(self.function, self._in_progress_timeout)

    async def _finish_in_time(self, ticket: Ticket, data: bytes) -> bool:
        with anyio.move_on_after(STORE_DEADLINE_S, shield=True):
            return await self._store.finish(ticket.key, ticket.owner, data, self._keep)
        raise StoreFailed(f"{self.function}: its result wasn't stored within {STORE_DEADLINE_S:g} s.")

    async def abandon(self, ticket: Ticket, error: BaseException) -> None:
        """Remove the claim, so that a redelivery runs the function. If that fails, the claim expires."""
        why = await self._remove_claim(ticket)
        if why:
            error.add_note(
                f"The claim of {self.function} couldn't be removed ({why}). It expires "
                f"{self._in_progress_timeout:g} s after it was made."
            )

    async def give_up(self, ticket: Ticket) -> None:
        """The function has returned without a result: remove the claim. If that fails, the claim expires; until then,
        a redelivery waits for it."""
        await self._remove_claim(ticket)

    async def _remove_claim(self, ticket: Ticket) -> str:
        """Returns why that failed, if it did."""
        try:
            with anyio.move_on_after(STORE_DEADLINE_S, shield=True):
                await self._store.abandon(ticket.key, ticket.owner)
                return ""
            return f"no response within {STORE_DEADLINE_S:g} s"
        except Exception as failure:
            return f"{type(failure).__name__}: {failure}"

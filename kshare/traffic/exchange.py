"""A request with its response, and the frames that carried them.

Values alone: nothing here decides anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from kshare.protocol.api_keys import API_NAMES
from kshare.protocol.message import Message


@dataclass(frozen=True, slots=True)
class Connection:
    """One TCP connection of a client to a broker; addresses are texts, as they are shown."""

    number: int
    client: str
    server: str


@dataclass(slots=True, eq=False)
class Frame:
    """One frame on its way, without its size; before anything is known of its answer."""

    connection: Connection
    is_request: bool
    time: float
    data: memoryview
    api_key: int
    version: int
    is_token: bool = False
    """A SASL token in the old form: no header, no API, nothing but secrets."""


@dataclass(slots=True, eq=False)
class Exchange:
    """A request, and its answer unless there is none. Times are seconds of the Unix epoch."""

    connection: Connection
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    asked_at: float
    request_frame: memoryview
    request: Message | None = None
    answered_at: float | None = None
    response_frame: memoryview | None = None
    response: Message | None = None
    problem: str = ""
    """Why something of it couldn't be decoded."""
    expects_answer: bool = True
    """False for what is never answered: a Produce with acks=0."""
    is_token: bool = False
    request_surplus: int = 0
    """Bytes behind the request that belong to nothing in it. Brokers don't mind them."""
    response_surplus: int = 0
    is_unheard: bool = False
    """The answer was sent, but it fell into a hole of the capture."""

    @property
    def api(self) -> str:
        if self.is_token:
            return "SASL token"
        return API_NAMES.get(self.api_key, f"API {self.api_key}")

    @property
    def ended_at(self) -> float:
        return self.asked_at if self.answered_at is None else self.answered_at

    @property
    def seconds(self) -> float | None:
        """How long the answer took."""
        return None if self.answered_at is None else self.answered_at - self.asked_at

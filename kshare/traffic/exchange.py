"""A request with its response, and the frames that carried them. Only data: nothing here decides anything."""

from __future__ import annotations

from dataclasses import dataclass

from kshare.protocol.api_keys import API_NAMES
from kshare.protocol.message import Message


@dataclass(frozen=True, slots=True)
class Connection:
    """One TCP connection of a client to a broker; addresses are texts, for display."""

    number: int
    client: str
    server: str


@dataclass(slots=True, eq=False)
class Frame:
    """One frame, without its size. If it is a request, its response isn't known yet."""

    connection: Connection
    is_request: bool
    time: float
    data: memoryview
    api_key: int
    version: int
    is_token: bool = False
    """A SASL token in the old form: it has no header and no API, and is secret."""


@dataclass(slots=True, eq=False)
class Exchange:
    """A request, and its response if there is one. Times are seconds since the Unix epoch."""

    connection: Connection
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    asked_at: float
    request_frame: memoryview
    request: Message | None = None
    responded_at: float | None = None
    response_frame: memoryview | None = None
    response: Message | None = None
    problem: str = ""
    """Why part of it couldn't be decoded."""
    expects_response: bool = True
    """False for requests without a response: Produce with acks=0."""
    is_token: bool = False
    request_surplus: int = 0
    """How many bytes are left over after the request. Brokers ignore them."""
    response_surplus: int = 0
    is_unheard: bool = False
    """The response was sent, but is missing in the capture."""

    @property
    def api(self) -> str:
        if self.is_token:
            return "SASL token"
        return API_NAMES.get(self.api_key, f"API {self.api_key}")

    @property
    def ended_at(self) -> float:
        return self.asked_at if self.responded_at is None else self.responded_at

    @property
    def seconds(self) -> float | None:
        """The time from request to response."""
        return None if self.responded_at is None else self.responded_at - self.asked_at

"""HTTP requests and responses, as far as health probes need them: GET without a body, one to a connection. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_REQUEST = 8 * 1024
"""The longest request, in bytes: its first line and its headers."""
_END = re.compile(rb"\r?\n\r?\n")
_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~]+) HTTP/1\.[01]\r?\n")
_HOST = re.compile(rb"\nhost:[ \t]*([^\r\n]*)", re.IGNORECASE)
_PORT = re.compile(r":[0-9]*$")
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    421: "Misdirected Request",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    path: str
    host: str = ""
    """The name or the address under which the client knows this server, without the port; empty if it doesn't say."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    status: int
    content_type: str
    body: bytes
    rest: bytes = b""
    """Of the body. Many responses may have the same large one, which none of them copies."""

    @classmethod
    def text(cls, status: int, text: str) -> HttpResponse:
        return cls(status, "text/plain; charset=utf-8", f"{text}\n".encode())

    @property
    def head(self) -> bytes:
        """The connection is closed after each response, so that idle ones hold nothing."""
        lines = [
            f"HTTP/1.1 {self.status} {_REASONS[self.status]}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {len(self.body) + len(self.rest)}",
            "Cache-Control: no-store",
            "Connection: close",
        ]
        if self.status == 405:
            lines.append("Allow: GET")
        return "\r\n".join([*lines, "", ""]).encode()


def read_request(received: bytes) -> HttpRequest | HttpResponse | None:
    """The request; or a refusal; or None if more bytes are needed. Of the headers, Host alone is read."""
    end = _END.search(received)
    if end is None:
        if len(received) >= MAX_REQUEST:
            return HttpResponse.text(431, f"a request may have {MAX_REQUEST:,} bytes")
        return None
    line = _LINE.match(received)
    if line is None:
        return HttpResponse.text(400, "this isn't an HTTP/1.1 request")
    if line[1] != b"GET":
        return HttpResponse.text(405, "only GET is supported")
    hosts = _HOST.findall(received, 0, end.end())
    if len(hosts) > 1:
        return HttpResponse.text(400, "there is more than one Host header")
    return HttpRequest(line[2].decode("ascii").partition("?")[0], _name(b"".join(hosts)))


def _name(host: bytes) -> str:
    return _PORT.sub("", host.decode("latin-1").strip()).strip("[]").lower()

"""Gets the body of a status page over HTTP, from a server that may be anything.

The request is of HTTP/1.0, so that the response has no chunks and ends with the connection. Its size is limited, and
whoever calls limits its time. Redirects aren't followed, and cookies and logins don't exist.
"""

from __future__ import annotations

import re
import ssl

import anyio
from anyio.abc import ByteStream

from kshare.fleet.no_status import NoResponse, Why
from kshare.log_text import escaped
from kshare.net.addresses import format_address
from kshare.worker.watch.status_url import STATUS_PATH, StatusUrl

MAX_BODY = 1024 * 1024
_MAX_HEAD = 16 * 1024
_END = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: [^\r\n]*)?\r?\n")
_LENGTH = re.compile(rb"\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r?\n", re.IGNORECASE)
_CODED = re.compile(rb"\n(?:transfer|content)-encoding:[ \t]*([^\r\n]{0,80})", re.IGNORECASE)


async def http_get(url: StatusUrl, address: str) -> bytes:
    """Connects to this address of the host. Raises NoResponse or OSError."""
    stream = await _connect(url, address)
    try:
        await stream.send(
            f"GET {STATUS_PATH} HTTP/1.0\r\nHost: {format_address((url.host, url.port))}\r\n"
            "Accept: application/json\r\nUser-Agent: kshare\r\nConnection: close\r\n\r\n".encode()
        )
        head, begun = await _receive_head(stream)
        return await _receive_body(stream, _checked(head), begun)
    except (anyio.EndOfStream, anyio.BrokenResourceError, OSError) as problem:
        raise NoResponse(
            Why.CLOSED, "it has closed the connection before its response was complete"
        ) from problem
    finally:
        await anyio.aclose_forcefully(stream)


async def _connect(url: StatusUrl, address: str) -> ByteStream:
    if url.scheme == "http":
        return await anyio.connect_tcp(address, url.port)
    try:
        return await anyio.connect_tcp(
            address,
            url.port,
            ssl_context=ssl.create_default_context(),
            tls_hostname=url.host,
            tls_standard_compatible=False,
        )
    except ssl.SSLError as problem:
        raise NoResponse(Why.UNREACHABLE, f"TLS: {escaped(str(problem))[:200]}") from problem
    except (anyio.EndOfStream, anyio.BrokenResourceError) as problem:
        raise NoResponse(Why.UNREACHABLE, "TLS: it has closed the connection") from problem


async def _receive_head(stream: ByteStream) -> tuple[bytes, bytes]:
    """Status line and headers, and what was received of the body."""
    received = b""
    while not (end := _END.search(received)):
        if len(received) >= _MAX_HEAD:
            raise NoResponse(Why.TOO_LARGE, f"its response has more than {_MAX_HEAD:,} bytes of headers")
        received += await stream.receive(_MAX_HEAD - len(received))
    return received[: end.end()], received[end.end() :]


def _checked(head: bytes) -> int | None:
    """The length of the body, if it is given."""
    status = _STATUS.match(head)
    if status is None:
        raise NoResponse(Why.NOT_OK, "its response isn't HTTP")
    if status[1].startswith(b"3"):
        raise NoResponse(Why.NOT_OK, f"it redirects (status {status[1].decode()}), which isn't followed")
    if status[1] != b"200":
        raise NoResponse(Why.NOT_OK, f"it has responded with status {status[1].decode()}")
    coded = _CODED.search(head)
    if coded is not None:
        raise NoResponse(Why.NOT_OK, f"its response is encoded: {escaped(coded[1].decode('latin-1'))}")
    length = _LENGTH.search(head)
    return None if length is None else int(length[1])


async def _receive_body(stream: ByteStream, length: int | None, begun: bytes) -> bytes:
    body = bytearray(begun)
    while length is None or len(body) < length:
        if len(body) > MAX_BODY or (length is not None and length > MAX_BODY):
            raise NoResponse(Why.TOO_LARGE, f"its response has more than {MAX_BODY:,} bytes")
        try:
            body += await stream.receive()
        except anyio.EndOfStream:
            if length is None:
                break
            raise
    return bytes(body if length is None else body[:length])

"""A stand-in for a schema registry, which speaks the part of its REST API that Confluent's client uses.

It is no registry: it checks no compatibility and keeps nothing. No package index that we use has a real one.
"""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_NAMESPACE = uuid.UUID("6f1f9d0e-1f0b-4f7e-9a56-9d1b7a0b7b11")


class SchemaRegistry:
    """`fails_with` is the HTTP status of all responses to GET while it is set. Those wait for `may_respond`.

    While `page` is set, it is the body of these responses, with status 200, as if a proxy had sent it.
    """

    def __init__(self) -> None:
        self.url = ""
        self.schemas: list[dict[str, Any]] = []
        self.fetched: list[str] = []
        """The paths of schemas that were fetched."""
        self.fails_with = 0
        self.page = b""
        self.may_respond = threading.Event()
        self.may_respond.set()
        self.waiting = threading.Event()
        """Set when the first request waits."""

    @contextmanager
    def running(self) -> Iterator[SchemaRegistry]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.waiting.set()
                registry.may_respond.wait(30)
                status, body = registry.get(self.path.partition("?")[0])
                self._respond(
                    *((200, registry.page) if registry.page else (status, json.dumps(body).encode()))
                )

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._respond(200, json.dumps(registry.register(self.path.split("/")[2], body)).encode())

            def _respond(self, status: int, encoded: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(encoded)))
                self.end_headers()
                self.wfile.write(encoded)

            def log_message(self, *_: Any) -> None: ...

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.url = f"http://127.0.0.1:{server.server_port}"
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            try:
                yield self
            finally:
                self.may_respond.set()
                server.shutdown()
                thread.join()

    def register(self, subject: str, schema: dict[str, Any]) -> dict[str, Any]:
        """The response to a schema that is registered or looked up. The same schema gets the same id."""
        for known in self.schemas:
            if (known["subject"], known["schema"]) == (subject, schema["schema"]):
                return known
        number = len(self.schemas) + 1
        guid = str(uuid.uuid5(_NAMESPACE, schema["schema"]))
        self.schemas.append({**schema, "subject": subject, "version": 1, "id": number, "guid": guid})
        return self.schemas[-1]

    def get(self, path: str) -> tuple[int, object]:
        if self.fails_with:
            return self.fails_with, {"error_code": self.fails_with, "message": "out of order"}
        if match := re.fullmatch(r"/schemas/(ids|guids)/([\w-]+)", path):
            self.fetched.append(path)
            field = {"ids": "id", "guids": "guid"}[match[1]]
            for schema in self.schemas:
                if str(schema[field]) == match[2]:
                    return 200, schema
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

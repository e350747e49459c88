"""The URLs of a schema registry, separated by commas: checked, and without their passwords in what is shown."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from urllib.parse import SplitResult, quote, quote_plus, unquote, urlsplit

from kshare.errors import ConfigError

_HIDDEN = "***"
_SHORTEST_TOKEN = 8


def check_registry_url(urls: str) -> None:
    """Raises ConfigError, which doesn't repeat them: they may contain a password."""
    for url in urls.split(","):
        try:
            found = urlsplit(url.strip())
            is_one = found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
        except ValueError:
            is_one = False
        if not is_one or any(sign.isspace() or not sign.isprintable() for sign in url.strip()):
            raise ConfigError(
                "that isn't the URL of a schema registry: write http:// or https://, a host and perhaps a port, such "
                "as http://registry:8081; percent-encode what is special in a name or a password (--schema-registry)"
            )


def has_password(urls: str) -> bool:
    return any(True for url in urls.split(",") for _ in _secrets(urlsplit(url.strip())))


def without_passwords(text: str, urls: str) -> str:
    """However a registry, a proxy or a library repeats them: as they are written, decoded, or as they are sent."""
    found = {secret for url in urls.split(",") for secret in _secrets(urlsplit(url.strip()))}
    for secret in sorted(found, key=len, reverse=True):  # a part of another one last
        text = text.replace(secret, _HIDDEN)
    return text


def _secrets(url: SplitResult) -> Iterator[str]:
    """A long name without a password is a token."""
    name = url.username or ""
    secret = url.password or (name if len(name) >= _SHORTEST_TOKEN else "")
    if not secret:
        return
    for user, password in ((name, secret), (unquote(name), unquote(secret))):
        sent = f"{user}:{password if url.password else ''}".encode()
        yield base64.b64encode(sent).decode().rstrip("=")
        yield base64.urlsafe_b64encode(sent).decode().rstrip("=")
        yield from (password, quote(password), quote(password, safe=""), quote_plus(password))
        yield json.dumps(password)[1:-1]
        yield repr(password)[1:-1]
        yield repr(password.encode())[2:-1]

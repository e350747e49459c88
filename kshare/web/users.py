"""Who may use the console: names and hashed passwords from a file, and whether each may make changes.

A line of the file is `name:rights:hash`, with `read` or `change` as rights. `kshare web --make-user NAME` writes such a
line. Passwords are hashed with scrypt. A checked password is remembered in memory as a keyed hash, because scrypt is
slow on purpose, and browsers send the password with every request.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kshare.errors import ConfigError
from kshare.wording import shell_word

log = logging.getLogger("kshare.web")

_COST, _BLOCK, _PARALLEL = 2**14, 8, 1
_SALT_BYTES = 16
_MOST_REMEMBERED = 1000
_NOBODY = f"scrypt${base64.b64encode(bytes(_SALT_BYTES)).decode()}${base64.b64encode(bytes(64)).decode()}"
RIGHTS = ("read", "change")


@dataclass(frozen=True, slots=True)
class User:
    name: str
    may_change: bool


class Users:
    """Checks names and passwords."""

    def __init__(self, entries: Mapping[str, tuple[User, str]]) -> None:
        self._entries = entries
        self._key = secrets.token_bytes(32)
        self._remembered: dict[bytes, User] = {}

    def remembered(self, name: str, password: str) -> User | None:
        """Quick; None unless they were right before."""
        return self._remembered.get(self._mark(name, password))

    def check(self, name: str, password: str) -> User | None:
        """None if the name or the password is wrong. Takes as long for a name that doesn't exist."""
        user, stored = self._entries.get(name, (None, _NOBODY))
        if not _matches(password, stored) or user is None:
            return None
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[self._mark(name, password)] = user
        return user

    def _mark(self, name: str, password: str) -> bytes:
        return hmac.new(self._key, f"{name}\0{password}".encode(), hashlib.sha256).digest()


def read_users(path: Path) -> Users:
    entries: dict[str, tuple[User, str]] = {}
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise ConfigError(
            f"there is no users file {path}: `kshare web --make-user NAME` writes lines for it"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"users file {path}: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, rights, stored = [*line.strip().split(":"), "", ""][:3]
        if not name or rights not in RIGHTS or not _is_hash(stored):
            raise ConfigError(
                f"users file {path}, line {number}: expected name:read:hash or name:change:hash; "
                "`kshare web --make-user NAME` writes one"
            )
        if name in entries:
            raise ConfigError(f"users file {path}, line {number}: {name} has another line already")
        entries[name] = User(name, rights == "change"), stored
    if not entries:
        raise ConfigError(f"users file {path} has no users")
    if os.name == "posix" and path.stat().st_mode & 0o006:
        log.warning(
            "users file %s is open to all users of this machine: chmod o-rw %s", path, shell_word(str(path))
        )
    return Users(entries)


def user_line(name: str, password: str, *, may_change: bool) -> str:
    """A line for the file."""
    if not name or ":" in name or not name.isprintable() or name != name.strip() or name.startswith("#"):
        raise ConfigError(
            f"{name!r} can't be a user's name: it must be printable, without a colon, without spaces around it, and "
            "not begin with #"
        )
    salt = os.urandom(_SALT_BYTES)
    hashed = _hash(password, salt)
    rights = RIGHTS[may_change]
    return f"{name}:{rights}:scrypt${base64.b64encode(salt).decode()}${base64.b64encode(hashed).decode()}"


def _hash(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=_COST, r=_BLOCK, p=_PARALLEL)


def _is_hash(stored: str) -> bool:
    try:
        kind, salt, hashed = stored.split("$")
        return kind == "scrypt" and len(base64.b64decode(salt)) > 0 and len(base64.b64decode(hashed)) == 64
    except ValueError:
        return False


def _matches(password: str, stored: str) -> bool:
    _, salt, hashed = stored.split("$")
    return hmac.compare_digest(_hash(password, base64.b64decode(salt)), base64.b64decode(hashed))

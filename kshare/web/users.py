"""Who may use the console: names and hashed passwords from a file, and whether each may make changes.

A line of the file is `name:rights:hash`, with `read` or `change` as rights. `kshare web --make-user NAME` writes such a
line. If a proxy checks the users, `name:rights` is enough, and the name `*` stands for all others.

Passwords are hashed with scrypt. A checked password is remembered in memory as a keyed hash, because scrypt is slow on
purpose, and browsers send the password with every request.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kshare.errors import ConfigError
from kshare.wording import shell_word

log = logging.getLogger("kshare.web")

_COST_BITS, _BLOCK, _PARALLEL = 17, 8, 1
"""What OWASP advises: 128 MiB and about half a second. One password is checked at a time."""
_FIRST_COST_BITS = 14
"""Of hashes that don't say it."""
_MEMORY = 2 * 128 * _BLOCK * 2**_COST_BITS
_HASH = re.compile(r"scrypt\$(?:ln=(1[4-7]),r=8,p=1\$)?([A-Za-z0-9+/]+=*)\$([A-Za-z0-9+/]{86}==)", re.ASCII)
_SALT_BYTES, _HASH_BYTES = 16, 64
_MOST_REMEMBERED = 1000
RIGHTS = ("read", "change")
EVERYBODY = "*"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    may_change: bool


@dataclass(frozen=True, slots=True)
class _Hash:
    cost_bits: int
    salt: bytes
    hashed: bytes

    @classmethod
    def parse(cls, text: str) -> _Hash | None:
        found = _HASH.fullmatch(text)
        if found is None:
            return None
        try:
            salt, hashed = base64.b64decode(found[2]), base64.b64decode(found[3])
        except ValueError:
            return None
        return cls(int(found[1] or _FIRST_COST_BITS), salt, hashed)

    @classmethod
    def make(cls, password: str) -> _Hash:
        salt = os.urandom(_SALT_BYTES)
        return cls(_COST_BITS, salt, _scrypt(password, salt, _COST_BITS))

    def __str__(self) -> str:
        salt, hashed = base64.b64encode(self.salt).decode(), base64.b64encode(self.hashed).decode()
        return f"scrypt$ln={self.cost_bits},r={_BLOCK},p={_PARALLEL}${salt}${hashed}"

    def fits(self, password: str) -> bool:
        return hmac.compare_digest(_scrypt(password, self.salt, self.cost_bits), self.hashed)


@dataclass(frozen=True, slots=True)
class UserEntry:
    """A line of the file."""

    user: User
    password: _Hash | None
    """None if a proxy checks it."""


class Users:
    """Checks names and passwords."""

    def __init__(self, entries: Mapping[str, UserEntry]) -> None:
        self._key = secrets.token_bytes(32)
        self._remembered: dict[bytes, UserEntry] = {}
        self.replace(entries)

    def replace(self, entries: Mapping[str, UserEntry]) -> None:
        """Passwords that were right and are still the same needn't be checked again."""
        self._entries = entries
        cost_bits = max(
            (entry.password.cost_bits for entry in entries.values() if entry.password), default=_COST_BITS
        )
        self._nobody = _Hash(cost_bits, bytes(_SALT_BYTES), bytes(_HASH_BYTES))

    def remembered(self, name: str, password: str) -> User | None:
        """Quick; None unless they were right before, and still are."""
        known, entry = self._remembered.get(self._mark(name, password)), self._entries.get(name)
        return entry.user if known and entry and known.password == entry.password else None

    def check(self, name: str, password: str) -> User | None:
        """None if the name or the password is wrong. Takes as long for a name that doesn't exist."""
        entry = self._entries.get(name)
        is_right = ((entry and entry.password) or self._nobody).fits(password)
        if not is_right or entry is None:
            return None
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[self._mark(name, password)] = entry
        return entry.user

    def named(self, name: str) -> User:
        """A user whom a proxy has checked. Who has no line may read only, unless there is one for everybody else."""
        entry = self._entries.get(name) or self._entries.get(EVERYBODY)
        return User(name, entry is not None and entry.user.may_change)

    def _mark(self, name: str, password: str) -> bytes:
        return hmac.new(self._key, f"{name}\0{password}".encode(), hashlib.sha256).digest()


def read_entries(path: Path, *, has_passwords: bool = True) -> dict[str, UserEntry]:
    """Raises ConfigError."""
    entries: dict[str, UserEntry] = {}
    try:
        with path.open(encoding="utf-8-sig") as file:
            lines, mode = file.read().splitlines(), os.fstat(file.fileno()).st_mode
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
        password = _Hash.parse(stored)
        if not name or rights not in RIGHTS or (password is None and (has_passwords or stored)):
            expected = (
                "name:read:hash or name:change:hash; `kshare web --make-user NAME` writes one"
                if has_passwords
                else "name:read or name:change"
            )
            raise ConfigError(f"users file {path}, line {number}: expected {expected}")
        if name in entries:
            raise ConfigError(f"users file {path}, line {number}: {name} has another line already")
        entries[name] = UserEntry(User(name, rights == "change"), password)
    if not entries:
        raise ConfigError(f"users file {path} has no users")
    if os.name == "posix" and mode & (0o006 if has_passwords else 0o002):
        log.warning(
            "users file %s is open to all users of this machine: chmod o-rw %s", path, shell_word(str(path))
        )
    return entries


def user_line(name: str, password: str, *, may_change: bool) -> str:
    """A line for the file."""
    require_user_name(name)
    return f"{name}:{RIGHTS[may_change]}:{_Hash.make(password)}"


def require_user_name(name: str) -> None:
    """Raises ConfigError for a name that the file can't have."""
    if not name or ":" in name or not name.isprintable() or name != name.strip() or name.startswith("#"):
        raise ConfigError(
            f"{name!r} can't be a user's name: it must be printable, without a colon, without spaces around it, and "
            "not begin with #"
        )


def _scrypt(password: str, salt: bytes, cost_bits: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=2**cost_bits, r=_BLOCK, p=_PARALLEL, maxmem=_MEMORY)


class UsersFile:
    """The file is read again once it has changed: who was removed is out with the next request."""

    def __init__(self, path: Path, *, has_passwords: bool) -> None:
        """Raises ConfigError. Without passwords, a line may be `name:rights`."""
        self._path = path
        self._has_passwords = has_passwords
        self._state = _state(path)
        self._users = Users(read_entries(path, has_passwords=has_passwords))

    def current(self) -> Users:
        """As the file is now. While it can't be read, as it was: the log says so."""
        state = _state(self._path)
        if state != self._state:
            self._state = state
            try:
                self._users.replace(read_entries(self._path, has_passwords=self._has_passwords))
            except ConfigError as error:
                log.error("%s: until that is fixed, users and rights remain as they were", error)
            else:
                log.warning("users file %s has changed, and was read again", self._path)
        return self._users


def _state(path: Path) -> tuple[int, ...] | None:
    """Changes if the file does; None if it isn't there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

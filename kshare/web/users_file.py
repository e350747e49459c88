"""The file of users, which is read again once it has changed: who was removed is out with the next request."""

from __future__ import annotations

import logging
from pathlib import Path

from kshare.errors import ConfigError
from kshare.web.users import Users, read_entries

log = logging.getLogger("kshare.web")

_State = tuple[int, int, int, int] | None


class UsersFile:
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
                log.error("%s: until that is mended, users and rights remain as they were", error)
            else:
                log.warning("users file %s has changed, and was read again", self._path)
        return self._users


def _state(path: Path) -> _State:
    """Changes if the file does; None if it isn't there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

"""A folder on a disk, as a program and a crash of its machine see it: what isn't synced may be gone, or be torn."""

from __future__ import annotations

import io
from collections.abc import Hashable


class _File:
    def __init__(self) -> None:
        self.data = ""
        self.synced = ""


class Disk:
    """One folder. Stands in for `os`, too, as far as the verdict log uses it."""

    O_RDONLY = O_DIRECTORY = 0

    def __init__(self) -> None:
        self._names: dict[str, _File] = {}
        self._synced_names: dict[str, _File] = {}
        self._open: list[_File | None] = []

    def __truediv__(self, name: str) -> Name:
        return Name(self, name)

    # --- as `os`

    def opened(self, file: _File) -> int:
        self._open.append(file)
        return len(self._open) - 1

    def open(self, folder: Disk, flags: int) -> int:
        self._open.append(None)
        return len(self._open) - 1

    def close(self, number: int) -> None:
        """Nothing is kept open."""

    def fsync(self, number: int) -> None:
        file = self._open[number]
        if file is None:
            self._synced_names = dict(self._names)
        else:
            file.synced = file.data

    # --- as `Path`

    def file(self, name: str, *, is_new: bool = False) -> _File:
        if is_new:
            self._names[name] = _File()
        if name not in self._names:
            raise FileNotFoundError(name)
        return self._names[name]

    def rename(self, name: str, to: str) -> None:
        self._names[to] = self._names.pop(name)

    # --- what happens to it

    def sync_all(self) -> None:
        """The system does that by itself, some seconds later."""
        for file in self._names.values():
            file.synced = file.data
        self._synced_names = dict(self._names)

    def crash(self, *, keeps_names: bool) -> None:
        """The machine has crashed. Names may be newer than the contents that were synced."""
        if not keeps_names:
            self._names = dict(self._synced_names)
        for file in self._names.values():
            file.data = file.synced
        self._synced_names = dict(self._names)
        self._open.clear()

    @property
    def is_synced(self) -> bool:
        return self._names == self._synced_names and all(
            file.data == file.synced for file in self._names.values()
        )

    def fingerprint(self) -> Hashable:
        return tuple(
            tuple((name, file.data, file.synced) for name, file in sorted(names.items()))
            for names in (self._names, self._synced_names)
        )


class Name:
    """A path in the folder."""

    def __init__(self, disk: Disk, name: str) -> None:
        self._disk = disk
        self.name = name

    def with_suffix(self, suffix: str) -> Name:
        return Name(self._disk, self.name.rpartition(".")[0] + suffix)

    def open(self, mode: str, encoding: str) -> _Writer:
        return _Writer(self._disk, self._disk.file(self.name, is_new="w" in mode))

    def replace(self, to: Name) -> None:
        self._disk.rename(self.name, to.name)

    def read_text(self, encoding: str) -> str:
        return self._disk.file(self.name).data


class _Writer(io.StringIO):
    def __init__(self, disk: Disk, file: _File) -> None:
        super().__init__()
        self._disk = disk
        self._file = file

    def flush(self) -> None:
        super().flush()
        self._file.data = self.getvalue()

    def fileno(self) -> int:
        return self._disk.opened(self._file)

    def close(self) -> None:
        if not self.closed:
            self.flush()
        super().close()

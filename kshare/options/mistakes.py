"""Collects what is wrong with a configuration, so that users are told all of it at once. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kshare.errors import ConfigError


class Mistakes:
    """`with mistakes:` goes around each check that may raise ConfigError. `raise_all` then raises them as one."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def __enter__(self) -> None:
        """The error of the block is collected."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, ConfigError):
            return False
        self.add(*error.mistakes)
        return True

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """The same, for a block that is about this place, with which its mistakes begin."""
        with self, located(place):
            yield

    def add(self, *mistakes: str) -> None:
        """Each is told once, even if several checks find it."""
        self._found += [mistake for mistake in dict.fromkeys(mistakes) if mistake not in self._found]

    def __bool__(self) -> bool:
        return bool(self._found)

    def raise_all(self) -> None:
        """Raises ConfigError if there are any."""
        if self._found:
            raise ConfigError(*self._found)


@contextmanager
def located(place: str) -> Iterator[None]:
    """Let each mistake of an error begin with where it is."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(*(f"{place}: {mistake}" for mistake in error.mistakes)) from None

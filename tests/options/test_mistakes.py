"""Mistakes are collected, and raised as one error with a line for each."""

from __future__ import annotations

import copy
import pickle

import pytest

from kshare.errors import ConfigError
from kshare.options.mistakes import Mistakes, located


def test_one_mistake_is_raised_as_it_is() -> None:
    mistakes = Mistakes()
    with mistakes:
        raise ConfigError("linger must be short")
    with pytest.raises(ConfigError, match=r"^linger must be short$"):
        mistakes.raise_all()


def test_several_are_lines_of_one_error_and_each_is_told_once() -> None:
    mistakes = Mistakes()
    assert not mistakes
    mistakes.raise_all()
    mistakes.add("first")
    with mistakes:
        raise ConfigError("first", "second\nline")
    with mistakes.at("shop.toml"):
        raise ConfigError("third", "fourth")
    assert mistakes
    with pytest.raises(ConfigError) as caught:
        mistakes.raise_all()
    error = caught.value
    assert error.mistakes == ("first", "second\nline", "shop.toml: third", "shop.toml: fourth")
    assert str(error).splitlines() == [
        "4 mistakes in the configuration:",
        "- first",
        r"- second\nline",  # a name with a line break makes no further line
        "- shop.toml: third",
        "- shop.toml: fourth",
    ]
    for same in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(same), str(same)) == (ConfigError, str(error))


def test_other_errors_are_not_collected() -> None:
    mistakes = Mistakes()
    with pytest.raises(KeyError), mistakes:
        raise KeyError("x")
    assert not mistakes


def test_each_mistake_begins_with_its_place() -> None:
    with pytest.raises(ConfigError) as caught, located("here"):
        raise ConfigError("a", "b")
    assert caught.value.mistakes == ("here: a", "here: b")

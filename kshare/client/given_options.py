"""All options that a user gives a client, in our names. What is wrong with them is told at once, not one by one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from kshare.client.kafka_names import KAFKA_NAMES, dotted
from kshare.errors import ConfigError
from kshare.net.settings import SECURITY_OPTIONS
from kshare.options.mistakes import Mistakes
from kshare.wording import nearest_name

_OF_DICTIONARIES = ("conf", "config", "configuration", "options", "properties", "settings")
"""What other clients, and wrappers of them, call all options together."""
_OF_SECURITY = ("sasl.", "ssl.", "security.", "enable.ssl.")
_ANY_NUMBER = "1"


def require_named_topics(positional: Sequence[object], options: Mapping[str, Any]) -> None:
    """Raises ConfigError for topics without a name, which consumers of kafka-python and aiokafka take."""
    if any(isinstance(argument, Mapping) for argument in positional):
        raise in_a_dictionary("ShareConsumer", "options")
    topics = positional if "bootstrap_servers" in options else positional[1:]
    if topics:
        named = topics[0] if len(topics) == 1 and not isinstance(topics[0], str) else list(topics)
        raise ConfigError(f"topics are passed by name, in a list: write topics={named!r}")


class GivenOptions(NamedTuple):
    values: dict[str, Any]
    """What could be translated, in our names."""
    attempted: frozenset[str]
    """Options, in our names, that seem to be meant by what couldn't be translated: that they are missing is no further
    mistake."""


def given_options(
    whose: str,
    bootstrap_servers: object,
    options: Mapping[str, Any],
    parse: Callable[[str, Any], Mapping[str, Any]],
    allowed: Collection[str],
    mistakes: Mistakes,
) -> GivenOptions:
    """`parse` translates one option into ours. Mistakes say `whose` options they are."""
    if isinstance(bootstrap_servers, Mapping):
        raise in_a_dictionary(whose, "options")
    values: dict[str, Any] = {}
    names: dict[str, str] = {}
    attempted: set[str] = set()
    if bootstrap_servers is not None:
        values["bootstrap_servers"] = bootstrap_servers
    for name, value in options.items():
        try:
            translated = parse(name, value)
        except ConfigError as error:
            if name in _OF_DICTIONARIES and isinstance(value, Mapping):
                raise in_a_dictionary(whose, name) from None
            mistakes.add(*error.mistakes)
            attempted.update(attempted_by(name, value, parse, allowed))
            continue
        for option, ours in translated.items():
            if option not in allowed:
                mistakes.add(f"{name} is an option of consumers, not of {whose}: leave it out")
            elif option in values:
                mistakes.add(f"{names.get(option, option)} and {name} both set {option}: give only one")
            else:
                values[option], names[option] = ours, name
    return GivenOptions(values, frozenset(attempted))


def attempted_by(
    name: str, value: Any, parse: Callable[[str, Any], Mapping[str, Any]], allowed: Collection[str]
) -> Iterable[str]:
    """Which of our options may be meant by a name or a value that is wrong."""
    if dotted(name).startswith(_OF_SECURITY):
        return SECURITY_OPTIONS  # one of Kafka's stands for several of ours
    near = nearest_name(dotted(name) if dotted(name) in KAFKA_NAMES else name, [*allowed, *KAFKA_NAMES])
    for attempt in (value, _ANY_NUMBER):
        with suppress(ConfigError):
            return parse(near, attempt).keys()
    return ()


def in_a_dictionary(whose: str, name: str) -> ConfigError:
    """Says nothing of what is in it, such as a password."""
    return ConfigError(
        f"options are passed by name, not in a dictionary: write ** before it: {whose}(**{name}). Kafka's names are "
        "understood"
    )

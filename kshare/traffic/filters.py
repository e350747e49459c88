"""Selects exchanges by API, topic, group and error. Findings and summaries ignore it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kshare.protocol.error_codes import error_name
from kshare.traffic.exchange import Exchange
from kshare.traffic.mentions import Mentions
from kshare.traffic.names import Names

ANY = "any"


@dataclass(frozen=True, slots=True)
class Filter:
    """An exchange must match one value of each kind that is given. APIs and errors ignore case."""

    apis: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    """Names, or ids as Kafka writes them."""
    groups: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    """Names or numbers of error codes, or `any`."""

    def wants(self, exchange: Exchange, mentioned: Mentions, names: Names) -> bool:
        return self._wants_regardless_of_topics(exchange, mentioned) and (
            not self.topics or not names.calls(mentioned).isdisjoint(self.topics)
        )

    def unnamed(self, exchange: Exchange, mentioned: Mentions, names: Names) -> set[bytes]:
        """Ids of topics whose names aren't known yet, if they alone decide whether the exchange is wanted."""
        if not self.topics or not self._wants_regardless_of_topics(exchange, mentioned):
            return set()
        return names.unnamed(mentioned) if names.calls(mentioned).isdisjoint(self.topics) else set()

    def _wants_regardless_of_topics(self, exchange: Exchange, mentioned: Mentions) -> bool:
        return (
            (not self.apis or _includes_any((exchange.api, str(exchange.api_key)), self.apis))
            and (not self.groups or bool(mentioned.groups & set(self.groups)))
            and (not self.errors or self._has_error(exchange, mentioned))
        )

    def _has_error(self, exchange: Exchange, mentioned: Mentions) -> bool:
        has_any = bool(mentioned.errors or exchange.problem)
        if ANY in self.errors:
            return has_any
        return any(_includes_any((error_name(code), str(code)), self.errors) for code in mentioned.errors)


def _includes_any(texts: Iterable[str], wanted: Iterable[str]) -> bool:
    return not {text.lower() for text in texts}.isdisjoint(value.lower() for value in wanted)

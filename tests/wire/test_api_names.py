"""API names as users type them."""

from __future__ import annotations

import pytest

from kshare.errors import ConfigError
from kshare.wire.api_names import api_key


def test_api_names_are_found_and_similar_ones_suggested() -> None:
    assert {api_key(text) for text in ("78", "ShareFetch", "sharefetchresponse")} == {78}
    with pytest.raises(ConfigError, match="did you mean 'ShareFetch"):
        api_key("ShareFetsh")

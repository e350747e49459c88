"""API names as users type them."""

from __future__ import annotations

import pytest

from kshare.cli.terminal.dissection.names import api_key
from kshare.cli.terminal.failure import Failure


def test_api_names_are_found_and_similar_ones_suggested() -> None:
    assert {api_key(text) for text in ("78", "ShareFetch", "sharefetchresponse")} == {78}
    with pytest.raises(Failure, match="did you mean 'ShareFetch"):
        api_key("ShareFetsh")

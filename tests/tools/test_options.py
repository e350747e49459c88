"""Options are defined once, in the config dataclasses. Everything derived from them is up to date."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import pytest

from kshare.admin.config import OPTIONS as ADMIN_OPTIONS
from kshare.broker.faults import Faults
from kshare.client.config import OPTIONS, ConsumerConfig
from kshare.client.options import AnyOptions, ClientOptions, ConsumerOptions
from kshare.net.settings import CLIENT_OPTIONS, NetSettings
from kshare.testing import Broker
from kshare.testing.config import BrokerConfig
from kshare.testing.options import BrokerOptions
from tools.options import BROKER, CLIENT, CONSUMER, FAULT, Option, methods_table, options_of, outdated, table


def test_typed_dicts_and_tables_are_up_to_date() -> None:
    assert list(outdated()) == [], "run `python -m tools.options`"


def test_options_at_run_time_equal_those_for_type_checkers() -> None:
    assert {"bootstrap_servers", *get_type_hints(AnyOptions)} == set(OPTIONS)
    assert {"bootstrap_servers", *get_type_hints(ClientOptions)} == set(ADMIN_OPTIONS)
    assert set(get_type_hints(ClientOptions)) == set(CLIENT_OPTIONS)
    assert set(get_type_hints(BrokerOptions)) == set(options_of(BrokerConfig))
    assert AnyOptions.__required_keys__ == {"group", "topics"}
    assert not ConsumerOptions.__required_keys__
    assert not set(get_type_hints(ConsumerOptions)) & set(get_type_hints(ClientOptions))


@pytest.mark.parametrize("option", [*CONSUMER, *CLIENT, *BROKER, *FAULT], ids=lambda option: str(option.name))
def test_every_option_is_documented_in_sentences(option: Option) -> None:
    assert option.docs.endswith("."), option.docs
    assert option.docs[0].isupper(), option.docs


def test_options_in_two_dataclasses_have_the_same_default() -> None:
    consumer, client = options_of(ConsumerConfig), options_of(NetSettings)
    shared = consumer.keys() & client.keys()
    assert shared == {"client_id", "request_timeout"}
    assert {name: consumer[name].default for name in shared} == {
        name: client[name].default for name in shared
    }


def test_help_describes_every_argument_of_a_fault() -> None:
    _, *arguments = inspect.signature(Faults.add).parameters.values()
    known = [argument.name for argument in arguments if argument.kind is not argument.VAR_KEYWORD]
    assert [option.name for option in FAULT] == known


def test_table_of_methods_has_signatures_without_types() -> None:
    rows = methods_table(Broker).splitlines()
    assert "| `move_leader(topic, partition, node)` | Move the leadership of a partition" in "\n".join(rows)
    assert len(rows) == 2 + len([name for name in dir(Broker) if not name.startswith("_")])
    assert [row for row in rows[2:] if not row.endswith(". |")] == []


def a_row(default: Any, name: str = "some") -> str:
    return table([Option(name, "int | None", default, "A | B.")]).splitlines()[-1]


def test_tables_show_defaults_in_python_syntax() -> None:
    assert a_row(20_000) == "| `some` | `int \\| None` | `20_000` | A \\| B. |"
    assert a_row("x") == '| `some` | `int \\| None` | `"x"` | A \\| B. |'
    assert a_row(True) == "| `some` | `int \\| None` | `True` | A \\| B. |"
    assert a_row(None) == "| `some` | `int \\| None` |  | A \\| B. |"
    assert a_row(2**21, "most_bytes") == "| `most_bytes` | `int \\| None` | `2 MiB` | A \\| B. |"

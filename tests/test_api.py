"""docs/api.md lists all public names, and no others."""

from __future__ import annotations

import pickle
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import get_type_hints

import pytest

import kshare
from kshare import errors, sync
from kshare.admin.client import AdminClient
from kshare.client.consumer import ShareConsumer
from kshare.client.record import ShareBatch, ShareRecord
from kshare.producer.client import Producer
from kshare.testing import Broker

ROOT = Path(__file__).parents[1]
NAME = re.compile(r"`([A-Za-z_]+)`")
PARTS = re.split(r"^## `(.*)`$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
SECTIONS = dict(zip(PARTS[1::2], PARTS[2::2], strict=True))
CLASSES = {"ShareConsumer": ShareConsumer, "AdminClient": AdminClient, "Producer": Producer, "Broker": Broker}
ON_INSTANCES = {"config", "release", "state"}
"""Public attributes that only instances have."""


def listed(section: str) -> list[str]:
    """The names in the first column of the section's table."""
    rows = [line.split(" | ")[0] for line in SECTIONS[section].splitlines() if line.startswith("| `")]
    return [name for row in rows for name in NAME.findall(row)]


def public_modules() -> list[str]:
    """Modules with `__all__`."""
    files = [
        path for path in (ROOT / "kshare").rglob("*.py") if "__all__ = [" in path.read_text(encoding="utf-8")
    ]
    names = [path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for path in files]
    return sorted(name.removesuffix(".__init__") for name in names)


@pytest.mark.parametrize("module", public_modules())
def test_every_public_name_of_a_module_is_listed_once(module: str) -> None:
    assert sorted(listed(module)) == sorted(import_module(module).__all__)


def test_every_section_is_a_module_or_a_class() -> None:
    assert set(SECTIONS) == {
        *public_modules(),
        *CLASSES,
        "ShareRecord",
        "ShareBatch",
        "PendingSend",
        "kshare.protocol",
    }


@pytest.mark.parametrize("name", CLASSES)
def test_every_public_member_of_a_class_is_listed_once(name: str) -> None:
    members = {member for member in dir(CLASSES[name]) if not member.startswith("_")}
    assert sorted(set(listed(name)) - ON_INSTANCES - {"with"}) == sorted(members)


def test_records_and_batches_have_what_is_listed() -> None:
    assert [name for name in listed("ShareRecord") if not hasattr(ShareRecord, name)] == []
    assert [name for name in listed("ShareBatch") if not hasattr(ShareBatch, name)] == []


def test_batches_have_no_other_public_names() -> None:
    shown = {name for name in dir(ShareBatch) if not name.startswith("_")}
    assert shown == {*listed("ShareBatch")} - {"len", "batch"}


def test_the_errors_of_kshare_are_those_marked_in_the_list_of_all_errors() -> None:
    marked = re.findall(r"^\| `(\w+)` \* ", SECTIONS["kshare.errors"], flags=re.MULTILINE)
    assert sorted(marked) == sorted(set(kshare.__all__) & set(errors.__all__))
    assert [name for name in marked if getattr(kshare, name) is not getattr(errors, name)] == []


def test_consumers_have_no_internal_names() -> None:
    internal = {"stretch", "is_implicit", "on_too_late", "open_batch", "hold_at_most"}
    assert internal & {*dir(ShareConsumer), *dir(sync.ShareConsumer)} == set()


DEFINED_ELSEWHERE = {"ClientOptions", "ConsumerOptions", "ProducerOptions", "Acknowledged", *errors.__all__}
"""They show the module that defines them: it is public, or type hints are looked up there."""


@pytest.mark.parametrize("module", [kshare, sync])
def test_classes_show_the_module_that_users_import_them_from(module: ModuleType) -> None:
    shown = {name: getattr(module, name) for name in module.__all__ if name not in DEFINED_ELSEWHERE}
    assert {name: f"<class '{module.__name__}.{name}'>" for name in shown} == {
        name: repr(kind) for name, kind in shown.items()
    }


@pytest.mark.parametrize("module", [kshare, sync])
def test_classes_can_be_pickled_and_have_type_hints(module: ModuleType) -> None:
    for name in module.__all__:
        kind = getattr(module, name)
        assert pickle.loads(pickle.dumps(kind)) is kind
        assert get_type_hints(kind) is not None


@pytest.mark.parametrize("module", ["kshare", "kshare.admin", "kshare.spark", "kshare.testing"])
def test_dir_lists_lazily_loaded_names(module: str) -> None:
    loaded = import_module(module)
    assert set(loaded.__all__) <= set(dir(loaded))
    assert [name for name in loaded.__all__ if getattr(loaded, name) is None] == []

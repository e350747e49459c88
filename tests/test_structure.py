"""Tests are in the same folders as the modules they test, and fakes and helpers are in separate modules."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
MODULES = sorted(TESTS.rglob("test_*.py"))

SUBJECTS = {
    ".": "api compiling docs forbid_skips glossary imports packaging requirements structure typing uncompiled "
    "vocabulary walk",
    "broker/shares": "cold_partitions competing many_nodes",
    "capture": "loopback",
    "cli": "bombs console_guide door entry group_health guide input json layout leaving locked_doors out_of_reach "
    "security segments terminal",
    "cli/consume": "unreadable",
    "cli/doctor": "group_health",
    "cli/dlq": "odd_letters",
    "client": "closing commit damaged_responses loops out_of_reach summary_log threads types",
    "dissect": "frames golden messages mistakes records_agree",
    "exporter": "files",
    "fast": "bare_objects same_errors switch",
    "idempotency": "loops",
    "metrics": "adapters",
    "net": "out_of_reach",
    "protocol": "golden hostile",
    "spark": "batch checkpoint_loss driven driven_journal driven_older driven_resets expired_ranges gone_back "
    "left_behind lost_checkpoints meddling moving_executors older_restarts older_spark real_storm reused_checkpoints "
    "storm storm_ledger stream throughput writing_back",
    "sync": "caught_errors closing_signals",
    "testing": "arguments confluent_share consumer_meets_faults dead_letters",
    "tools/benches": "members",
    "tools/kgen": "generated schemas types",
    "web": "browser",
    "worker": "cancellation dashboard unruly_dead_letters unruly_endings unruly_functions walk",
}
"""Folder → tests that don't test a single module. The first line of each says what it tests."""
OF_SUBJECTS = ("exhaustive", "integration", "rules", "simulation")
"""Folders with only such tests."""

PRIVATE = {
    "admin/test_share_states.py": 5,
    "broker/test_request_loop.py": 4,
    "broker/test_storage.py": 1,
    "cli/state/test_state.py": 2,
    "client/test_closing.py": 6,
    "client/test_commit.py": 2,
    "engine/test_node_session_waits.py": 3,
    "exhaustive/stepping.py": 4,
    "client/test_loops.py": 5,
    "helpers/browsing.py": 3,
    "integration/conftest.py": 2,  # pytest has no public way to end a fixture
    "integration/consumer_storm/defects.py": 6,
    "integration/storm.py": 2,
    "net/test_connection.py": 2,
    "rules/test_consumers.py": 1,
    "rules/test_sessions.py": 1,
    "simulation/loop.py": 4,
    "simulation/suspending.py": 8,
    "simulation/change_defects.py": 2,
    "spark/conftest.py": 1,
    "spark/driven.py": 5,
    "spark/moving_driver.py": 1,
    "simulation/consumer_defects.py": 4,
    "simulation/producer_defects.py": 17,
    "simulation/spark_defects.py": 15,
    "simulation/sync_defects.py": 6,
    "simulation/worker_defects.py": 8,
    "spark/real_storm/driver.py": 1,
    "spark/real_storm/places.py": 1,
    "spark/real_storm/source.py": 4,
    "spark/test_expired_ranges.py": 4,
    "spark/leases/test_batch_lease.py": 2,
    "state/test_session.py": 1,
    "sync/test_closing_signals.py": 3,
    "sync/test_consumer.py": 3,
    "sync/test_loops.py": 1,
    "sync/test_shared_loop.py": 1,
}
"""File → how many private names of other modules it uses, because there is no public one. Don't increase these."""
_DOCUMENTED = {"_replace", "_asdict", "_fields", "_exit"}
"""Public names of named tuples and of `os` that begin with an underscore."""


@functools.cache
def trees() -> dict[Path, ast.Module]:
    """All modules in tests/, parsed only once."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in TESTS.rglob("*.py")}


def parts_of(path: Path) -> tuple[str, str]:
    """Its folder within tests/, and the name of what it tests."""
    return path.parent.relative_to(TESTS).as_posix(), path.stem.removeprefix("test_")


def modules_of(folder: str) -> set[str]:
    """Names of the modules and packages that tests in this folder may test."""
    tested = ROOT / folder if folder.startswith("tools") else ROOT / "kshare" / folder
    return {
        path.stem for path in tested.glob("*") if path.is_dir() or not path.suffix or path.suffix == ".py"
    }


def is_placed(path: Path) -> bool:
    folder, name = parts_of(path)
    if folder.startswith(OF_SUBJECTS) or name in SUBJECTS.get(folder, "").split():
        return True
    if path.parent.name == name:  # it tests the folder as a whole, such as a command
        return True
    return any(name == module or name.startswith(f"{module}_") for module in modules_of(folder))


@pytest.mark.lengthy
def test_tests_are_in_the_folder_of_the_module_they_test() -> None:
    assert [str(path.relative_to(ROOT)) for path in MODULES if not is_placed(path)] == []


@pytest.mark.parametrize(
    ("name", "is_fine"),
    [
        ("client/test_config.py", True),
        ("client/test_config_sources.py", True),
        ("client/test_closing.py", True),
        ("client/test_nothing.py", False),
        ("net/test_config.py", False),
        ("broker/test_shares.py", True),
        ("cli/consume/test_consume.py", True),
        ("tools/test_filemap.py", True),
        ("tools/kafka/test_ports.py", True),
        ("integration/behaviour/test_anything.py", True),
    ],
)
def test_examples_of_placement(name: str, is_fine: bool) -> None:
    assert is_placed(TESTS / name) is is_fine


@pytest.mark.lengthy
def test_each_test_module_has_a_docstring() -> None:
    documents = {path: ast.get_docstring(trees()[path]) for path in MODULES}
    assert [path.name for path, document in documents.items() if not document] == []


def imported(tree: ast.Module) -> Iterator[str]:
    """The full names of everything that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def of_test_modules(names: Iterator[str]) -> list[str]:
    """Names within test modules."""
    return [name for name in names if any(part.startswith("test_") for part in name.split(".")[:-1])]


@pytest.mark.lengthy
def test_no_test_module_is_imported() -> None:
    found = {str(path.relative_to(ROOT)): of_test_modules(imported(tree)) for path, tree in trees().items()}
    assert {path: names for path, names in found.items() if names} == {}


def test_imports_are_found() -> None:
    source = "from tests.client.test_group import until\nimport tests.net.test_pool.many\nfrom tests.fakes import peer"
    found = of_test_modules(imported(ast.parse(source)))
    assert found == ["tests.client.test_group.until", "tests.net.test_pool.many"]


def private_names(tree: ast.Module) -> list[str]:
    """Private attributes of other objects that are used."""
    return [
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in _DOCUMENTED
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    ]


@pytest.mark.lengthy
def test_no_further_private_names_are_used() -> None:
    found = {path.relative_to(TESTS).as_posix(): len(private_names(tree)) for path, tree in trees().items()}
    assert {path: count for path, count in found.items() if count > PRIVATE.get(path, 0)} == {}


def test_private_names_are_found() -> None:
    tree = ast.parse("self._own\nsource._holdings._leases\none._replace(a=1)\none.__class__")
    assert private_names(tree) == ["_leases", "_holdings"]

"""What kshare imports is what `pip install kshare` and its extras bring: nothing that only tests install."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.modules import ROOT, modules

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = PROJECT["optional-dependencies"]
SOURCES = modules("kshare") | modules("pyspark_kshare")

EXTRAS = {
    "kshare.cli": ("cli",),
    "kshare.dissect": ("cli",),
    "kshare.wire": ("cli",),
    "kshare.web": ("web",),
    "kshare.web.decoding_child": ("web", "schema-registry"),
    "kshare.web.schema_decoding": ("web", "schema-registry"),
    "kshare.schema_registry": ("schema-registry",),
    "kshare.spark": ("spark",),
    "pyspark_kshare": ("spark",),
    "kshare.metrics.opentelemetry": ("opentelemetry",),
    "kshare.metrics.prometheus": ("prometheus",),
    "kshare.worker.opentelemetry": ("opentelemetry",),
    "kshare.worker.prometheus": ("prometheus",),
    "kshare.idempotency.redis": ("redis",),
    "kshare.net.sasl": ("sasl",),
}
"""What users have installed who import this module, or one of this package. The longest name counts."""

OF_USERS = {
    ("kshare.client.background", "trio"),
    ("kshare.net.running_loop", "trio"),
    ("kshare.testing.running_worker", "trio"),
    ("kshare.worker.threads", "trio"),
    ("kshare.testing.plugin", "pytest"),
    ("kshare.net.readiness", "sniffio"),
}
"""Imports of what runs kshare already, or that do without if it is missing."""


def extras_of(module: str) -> tuple[str, ...]:
    names = module.split(".")
    parents = [".".join(names[:count]) for count in range(len(names), 0, -1)]
    return next((EXTRAS[name] for name in parents if name in EXTRAS), ())


@functools.cache
def required(extras: tuple[str, ...], *, indirectly: bool) -> set[str]:
    """Canonical names of the distributions that kshare with these extras requires."""
    found: set[str] = set()
    waiting = [Requirement(f"kshare[{','.join(extras)}]" if extras else "kshare")]
    seen: set[str] = set()
    while waiting:
        requirement = waiting.pop()
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        name = canonicalize_name(requirement.name)
        found.add(name)
        if name == "kshare":
            texts = [
                *PROJECT["dependencies"],
                *(text for extra in requirement.extras for text in OPTIONAL[extra]),
            ]
            waiting += map(Requirement, texts)
        elif indirectly:
            waiting += _required_by(name, requirement.extras)
    return found


def _required_by(name: str, extras: set[str]) -> list[Requirement]:
    try:
        texts = distribution(name).requires or []
    except PackageNotFoundError:  # for other systems or other Pythons
        return []
    found = map(Requirement, texts)
    return [
        requirement
        for requirement in found
        if requirement.marker is None
        or any(requirement.marker.evaluate({"extra": extra}) for extra in ["", *extras])
    ]


def imported(module: str) -> Iterator[str]:
    """The packages that a module imports anywhere when it runs."""
    waiting: list[ast.AST] = [ast.parse(SOURCES[module].read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]
        waiting += ast.iter_child_nodes(node)


@pytest.mark.lengthy
def test_every_import_is_required_by_the_package_or_by_its_extra() -> None:
    owners = packages_distributions()
    wrong: list[str] = []
    for module in SOURCES:
        allowed = required(extras_of(module), indirectly=False)
        for package in set(imported(module)) - sys.stdlib_module_names - {"kshare", "pyspark_kshare"}:
            distributions = {canonicalize_name(name) for name in owners.get(package, [package])}
            if not distributions & allowed and (module, package) not in OF_USERS:
                wrong.append(f"{module} imports {package}")
    assert wrong == []


def test_every_exception_is_used() -> None:
    assert {module for module in EXTRAS if module not in SOURCES} == set()
    assert {(module, package) for module, package in OF_USERS if package not in imported(module)} == set()


WITHOUT = """
import sys
from importlib import import_module

hidden = set(sys.argv[1].split(","))


class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"{name} isn't installed here", name=name)


sys.meta_path.insert(0, Missing())
for name in sys.argv[2:]:
    import_module(name)
"""


@pytest.mark.lengthy
@pytest.mark.parametrize("extras", [(), *sorted(set(EXTRAS.values()))], ids=lambda extras: "+".join(extras))
def test_everything_can_be_imported_with_only_what_is_required(extras: tuple[str, ...]) -> None:
    """Of the distributions that are installed here, all others are hidden: as in an environment of its own."""
    there = required(extras, indirectly=True)
    hidden = [
        package
        for package, owners in packages_distributions().items()
        if not there & {canonicalize_name(name) for name in owners} and package not in sys.stdlib_module_names
    ]
    wanted = [
        name
        for name in SOURCES
        if set(extras_of(name)) <= set(extras) and not name.endswith(("__main__", ".plugin"))
    ]
    assert "sniffio" in hidden
    assert len(wanted) > 300
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, ",".join(hidden), *wanted],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]

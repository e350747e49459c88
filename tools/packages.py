"""Installs Python packages: with uv, which takes seconds where pip takes minutes, or with pip where uv doesn't work.

Needs only the standard library.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

UV = "uv>=0.5"
_DEADLINE_S = 1800.0
_OPTIONS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
}
"""Settings of pip that say where packages come from → uv's options for them. It doesn't read pip's settings."""


def prepare(python: Path, variables: Mapping[str, str]) -> None:
    """Put uv into a new environment. Without it, pip does all."""
    _did([*_pip(python), UV], variables)


def install(
    python: Path,
    *wanted: str | Path,
    variables: Mapping[str, str] | None = None,
    into: Path | None = None,
) -> bool:
    """Install into the environment of this interpreter, or where `--target` says. Returns whether it worked.

    `into`: the interpreter of another environment, which needs neither uv nor pip.
    """
    environment = variables or os.environ
    if (python.parent / "uv").exists():
        settings = _settings_of_pip(python, environment)
        places = [
            word
            for name, option in _OPTIONS.items()
            for at in settings.get(name, ())
            for word in (option, at)
        ]
        certificates = {"SSL_CERT_FILE": settings["cert"][0]} if "cert" in settings else {}
        uv = [python, "-m", "uv", "pip", "install", "--quiet", "--python", into or python, *places, *wanted]
        if _did(uv, {**certificates, **environment}):
            return True
        print("kshare: uv can't install this; pip tries it, which takes minutes", file=sys.stderr, flush=True)
    return _did([*_pip(python, into), *wanted], environment)


def _pip(python: Path, into: Path | None = None) -> list[str | Path]:
    elsewhere = () if into is None else ("--python", into)
    return [python, "-m", "pip", *elsewhere, "install", "--quiet", "--no-compile"]


def _settings_of_pip(python: Path, environment: Mapping[str, str]) -> dict[str, list[str]]:
    """What pip has been told, in its files or by variables."""
    said = subprocess.run(
        [python, "-m", "pip", "config", "list"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = (line.partition("=") for line in said.stdout.splitlines())
    return {name.rpartition(".")[2]: str(ast.literal_eval(value)).split() for name, _, value in lines}


def _did(command: list[str | Path], environment: Mapping[str, str]) -> bool:
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, timeout=_DEADLINE_S, check=False
    )
    return done.returncode == 0

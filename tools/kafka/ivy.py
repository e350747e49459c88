"""Fetches jars with Apache Ivy, which the pyspark wheel contains."""

from __future__ import annotations

import os
import ssl
import subprocess
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12

from tools.kafka.java import find_java

DEADLINE_S = 600
# Warnings can only be silenced for the whole process.
_one_at_a_time = threading.Lock()


class ResolutionError(RuntimeError):
    """Ivy could not fetch a set of jars."""


@dataclass(frozen=True, slots=True)
class Module:
    """One published artifact, in the terms of the jar registries."""

    organisation: str
    name: str
    revision: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """The modules to fetch with their runtime dependencies. `overrides` replaces versions that aren't published."""

    modules: tuple[Module, ...]
    overrides: tuple[Module, ...] = ()


def fetch(wanted: Wanted, into: Path, scratch: Path, progress: Callable[[int], None]) -> None:
    """Put the jars of `wanted` into the folder `into`; call `progress` with the number of jars fetched so far."""
    scratch.mkdir(parents=True, exist_ok=True)
    description = scratch / "ivy.xml"
    description.write_text(_description(wanted), encoding="utf-8")
    command = [
        str(find_java()),
        # Prevents reading or writing the user's own Ivy and Maven folders.
        f"-Duser.home={scratch}",
        *_trust(scratch),
        *_proxy(),
        *("-jar", str(ivy_jar())),
        *("-cache", str(scratch / "cache")),
        *("-ivy", str(description)),
        *("-confs", "default"),
        *("-types", "jar", "bundle"),
        *("-retrieve", f"{into}/[artifact]-[revision].[ext]"),
    ]
    output: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
    ) as ivy:
        watchdog = threading.Timer(DEADLINE_S, ivy.kill)
        watchdog.start()
        try:
            assert ivy.stdout is not None
            done = 0
            for line in ivy.stdout:
                output.append(line.rstrip())
                if "[SUCCESSFUL ]" in line:
                    done += 1
                    progress(done)
        finally:
            watchdog.cancel()
            if ivy.poll() is None:
                ivy.kill()
    if ivy.returncode or not any(into.glob("*.jar")):
        raise ResolutionError(_explanation(wanted, ivy.returncode, output))


def ivy_jar() -> Path:
    """The jar of Ivy in the pyspark package."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ResolutionError("Ivy comes with pyspark, which isn't installed: install the `dev` extra.")
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise ResolutionError(f"{Path(spec.origin).parent / 'jars'} has no ivy-*.jar.")
    return found[-1]


def _description(wanted: Wanted) -> str:
    dependencies = [
        f'<dependency org="{m.organisation}" name="{m.name}" rev="{m.revision}" conf="default->default"/>'
        for m in wanted.modules
    ]
    overrides = [
        f'<override org="{m.organisation}" module="{m.name}" rev="{m.revision}"/>' for m in wanted.overrides
    ]
    return (
        '<ivy-module version="2.0"><info organisation="kshare" module="wanted"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(dependencies + overrides)}</dependencies></ivy-module>"
    )


def _trust(scratch: Path) -> list[str]:
    """Arguments that make Java trust the authorities that Python and pip trust.

    The Java in the wheel has its own list, which lacks the authority of a company's proxy or mirror.
    """
    bundle = os.environ.get("PIP_CERT") or ssl.get_default_verify_paths().cafile
    if not bundle or not Path(bundle).is_file():
        return []
    with _one_at_a_time, warnings.catch_warnings():
        # The machine may have old authorities with invalid serial numbers, which don't matter here.
        warnings.simplefilter("ignore")
        authorities = x509.load_pem_x509_certificates(Path(bundle).read_bytes())
    entries = [pkcs12.PKCS12Certificate(found, b"%d" % index) for index, found in enumerate(authorities)]
    store = scratch / "trusted.p12"
    store.write_bytes(pkcs12.serialize_java_truststore(entries, NoEncryption()))
    return [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=PKCS12"]


def _proxy() -> list[str]:
    """Arguments for the proxy. Java doesn't read the environment variables that pip uses."""
    named = os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY")
    proxy = urlsplit(named or "")
    if not proxy.hostname:
        return []
    return [f"-Dhttps.proxyHost={proxy.hostname}", f"-Dhttps.proxyPort={proxy.port or 80}"]


def _explanation(wanted: Wanted, code: int, output: list[str]) -> str:
    names = ", ".join(f"{m.name} {m.revision}" for m in wanted.modules)
    error_lines = [line.strip() for line in output if "not found" in line or "error" in line.lower()]
    tail = "\n  ".join(error_lines or output[-20:])
    reason = f"gave up after {DEADLINE_S} s or was killed" if code < 0 else f"ended with code {code}"
    return f"The jars of {names} could not be fetched: Ivy {reason}.\n  {tail}"

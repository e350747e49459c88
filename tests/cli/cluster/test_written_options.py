"""Errors about properties files name the file and what is in it, and not Python's options."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshare.cli.cluster.connection import Cluster
from kshare.cli.cluster.written_options import WrittenOptions
from kshare.cli.terminal.failure import Misuse
from kshare.errors import ConfigError


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ["ssl.truststore.location={folder}/ca.pem"],
            "ssl.truststore.location has no effect without TLS: add security.protocol=SSL",
        ),
        (
            ["ssl.endpoint.identification.algorithm="],
            "ssl.endpoint.identification.algorithm has no effect without TLS: add security.protocol=SSL",
        ),
        (
            ["security.protocol=SSL", "ssl.key.location={folder}/ca.pem"],
            "ssl.key.location needs ssl.keystore.location",
        ),
        (
            ["security.protocol=SSL", "ssl.truststore.location={folder}/ca.jks"],
            "ssl.truststore.location: a Java key store can't be read: convert it to PEM and write "
            "ssl.truststore.location=<that file>",
        ),
        (
            ["security.protocol=SASL_SSL"],
            "security.protocol: SASL_SSL needs a SASL mechanism: add sasl.mechanism=PLAIN, or another",
        ),
        (
            ["sasl.mechanism=PLAIN", "security.protocol=SASL_SSL", "sasl.password=hunter2"],
            "PLAIN needs sasl.username, a non-empty string",
        ),
    ],
)
def test_options_are_named_as_they_are_written(tmp_path: Path, lines: list[str], said: str) -> None:
    (tmp_path / "ca.pem").write_text("")
    file = tmp_path / "client.properties"
    file.write_text("\n".join(lines).format(folder=tmp_path))
    with pytest.raises(Misuse) as caught:
        _ = Cluster("localhost:1", file).settings
    assert str(caught.value) == f"{file}: {said.format(folder=tmp_path)}"


def test_each_mistake_is_a_line_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.mechanism=PLAIN\nsecurity.protocol=SASL_SSL\nlinger=5\nrequest.timeout.ms=soon")
    with pytest.raises(Misuse) as caught:
        _ = Cluster("localhost:1", file).settings
    assert caught.value.lines == (
        "4 mistakes in the configuration:",
        f"- {file}: there is no option 'linger'",
        f"- {file}: request.timeout.ms: 'soon' isn't a whole number",
        f"- {file}: PLAIN needs sasl.username, a non-empty string",
        f"- {file}: PLAIN needs sasl.password, a non-empty string",
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "can't be read: No such file or directory"), ("x", "contains no certificates in PEM format")],
)
def test_a_file_of_certificates_that_is_wrong(tmp_path: Path, content: str | None, said: str) -> None:
    """Which is found out when connecting."""
    if content is not None:
        (tmp_path / "ca.pem").write_text(content)
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SSL\nssl.truststore.location={tmp_path}/ca.pem\n")

    async def nothing(_: object) -> None:
        raise AssertionError("it can't have connected")

    with pytest.raises(ConfigError) as caught:
        Cluster("localhost:1", file).run_routed(nothing)
    assert str(caught.value).startswith(f"{file}: ssl.truststore.location {tmp_path}/ca.pem {said}")


def test_what_the_command_line_says_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("ssl.ca.location=a.pem\n")
    with pytest.raises(Misuse) as caught:
        _ = Cluster("localhost:1", file, ["ssl.ca.location=b.pem"]).settings
    assert str(caught.value) == "ssl.ca.location has no effect without TLS: add security.protocol=SSL"


def test_only_names_of_options_are_replaced() -> None:
    written = WrittenOptions({}, None, ())
    text = "cert_file my.ca_file.pem/key_file can't be used (wrong format or password)"
    assert written.explained(text) == text.replace("cert_file", "ssl.keystore.location", 1)

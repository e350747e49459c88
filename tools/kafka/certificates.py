"""A certificate authority for tests, with a server's and a client's certificates as PEM files."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A private key and its certificate. `both` is one PEM file with the two, as Kafka needs it."""

    key: Path
    certificate: Path
    both: Path


class Authority:
    """Issues certificates. To trust them, clients and servers need `certificate`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._authority = trustme.CA(organization_name="kshare tests")
        self.certificate = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(self.certificate)

    def server(self) -> KeyPair:
        """A certificate for servers on this machine's local addresses."""
        return self._write("server", self._authority.issue_cert("localhost", "127.0.0.1"))

    def client(self, name: str = "alice") -> KeyPair:
        """A certificate for a client that brokers identify as CN=`name`."""
        return self._write(
            f"client-{name}", self._authority.issue_cert(f"{name}@test.invalid", common_name=name)
        )

    def client_context(self, key_pair: KeyPair | None = None) -> ssl.SSLContext:
        """The context of a client that trusts our servers and, with a key pair, authenticates to them."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        if key_pair is not None:
            context.load_cert_chain(key_pair.certificate, key_pair.key)
        return context

    def _write(self, name: str, issued: trustme.LeafCert) -> KeyPair:
        pair = KeyPair(
            self._folder / f"{name}.key", self._folder / f"{name}.crt", self._folder / f"{name}.pem"
        )
        # Kafka reads PKCS#8 only.
        key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), password=None)
        key_pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        chain_pem = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        pair.key.write_bytes(key_pem)
        pair.certificate.write_bytes(chain_pem)
        pair.both.write_bytes(key_pem + chain_pem)
        return pair

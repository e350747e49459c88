"""Confluent's deserializers for kshare's consumers: `pip install '.[schema-registry]'`."""

from kshare.schema_registry.adapter import RegistryUnavailable, from_registry

__all__ = ["RegistryUnavailable", "from_registry"]

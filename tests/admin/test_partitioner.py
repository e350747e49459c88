"""Keys go where kafka-python, which follows Java, has them go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as their_murmur2

from kshare.admin.partitioner import murmur2, partition_for


@given(st.binary(max_size=40))
def test_the_hash_is_javas(key: bytes) -> None:
    assert murmur2(key) == their_murmur2(key) & 0xFFFFFFFF


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_the_sign_is_left_out(key: bytes, partitions: int) -> None:
    """As Java's `toPositive` does, which isn't taking the absolute value."""
    assert partition_for(key, partitions) == (their_murmur2(key) & 0x7FFFFFFF) % partitions

"""The partition of a key is the same as in kafka-python, which follows Java."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as their_murmur2

from kshare.producer.partitioner import murmur2, partition_for


@given(st.binary(max_size=40))
def test_hash_is_the_same_as_javas(key: bytes) -> None:
    assert murmur2(key) == their_murmur2(key) & 0xFFFFFFFF


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_sign_bit_is_cleared(key: bytes, partitions: int) -> None:
    """As Java's `toPositive` does. It isn't the absolute value."""
    assert partition_for(key, partitions) == (their_murmur2(key) & 0x7FFFFFFF) % partitions

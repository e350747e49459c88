"""Records that the garbage collector never looks at: what keeps their memory alive passes for `bytes`.

Gains: no look at each record. With a list in each acquired range, the collector took longer than the decoding.
To take it out: declare the attribute `_kept` of `protocol/record.pxd` as `object`, and assign the view itself.
"""

from __future__ import annotations


def kept(view: memoryview) -> memoryview:
    """What keeps the bytes alive: the view itself.

    Compiled it passes for `bytes`, so that Cython knows it can't be part of a cycle and leaves records out of garbage
    collection: they come and go by the thousand. Nothing but keeping may be done with it.
    """
    return view

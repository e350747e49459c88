"""Shows classes under the names that users import, in messages, tracebacks and `help()`: `kshare.ShareRecord`.

Compiled classes can't be given another module by Python code. Their name is a C string, which the `.pxd` replaces. Then
`AttributeError` says the public name, too.

Gains: not faster: users needn't know internal modules.
To take it out: delete the calls, and the `.pxd`.
"""

from __future__ import annotations

from inspect import get_annotations
from typing import get_type_hints


def show_as(cls: type, name: bytes) -> None:
    """`name` is a literal, since it has to stay where it is, and begins with the public module."""
    # Afterwards, Python would look up what annotations mention in the public module.
    own = get_annotations(cls)
    if own:
        cls.__annotations__ = {one: kind for one, kind in get_type_hints(cls).items() if one in own}
    cls.__module__ = name.decode().rpartition(".")[0]

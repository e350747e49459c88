"""How `await` gets at what a `NextRecord` has: compiled, by a function in C that hands it over.

Without one it calls `__next__`, and the record comes by way of an exception that is made, raised and caught. Cython has
no name for that function (a type's `am_send`), so `shortcut.pxd` puts it where the interpreter looks.
"""

from __future__ import annotations


def await_quickly(kind: type) -> None:
    """Only for compiled classes: Python's own have no place for a function in C, and need none."""

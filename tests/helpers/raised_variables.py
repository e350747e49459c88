"""Finds `raise` statements whose frame keeps the exception in a variable: see `kshare.errors`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def kept_errors(tree: ast.AST, let_go: frozenset[str] = frozenset()) -> Iterator[ast.expr]:
    """What is raised, and is in a variable still when it leaves the function.

    `let_go`: variables that are no longer set then, because an `except` or a `finally` around it deletes them.
    """
    if isinstance(tree, ast.Raise) and tree.exc is not None and _is_kept(tree.exc, let_go):
        yield tree.exc
    if isinstance(tree, _FUNCTIONS):
        let_go = frozenset()
    elif isinstance(tree, ast.Try):
        let_go |= {name for statement in tree.finalbody for name in _deleted(statement)}
    elif isinstance(tree, ast.ExceptHandler) and tree.name is not None:
        let_go |= {tree.name}
    for child in ast.iter_child_nodes(tree):
        yield from kept_errors(child, let_go)


def _is_kept(raised: ast.expr, let_go: frozenset[str]) -> bool:
    """Names of classes begin with a capital letter."""
    if isinstance(raised, ast.Name):
        return raised.id not in let_go and not raised.id.lstrip("_")[0].isupper()
    if isinstance(raised, ast.Attribute):
        return not raised.attr.lstrip("_")[0].isupper()
    return isinstance(raised, ast.Subscript)


def _deleted(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del | ast.Store):
            yield node.id

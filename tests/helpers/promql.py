"""PromQL: the metrics and labels that a query uses, and the result of a query over series made for a test.

`evaluate` knows only what the alert rules in docs/prometheus use, and is simpler than Prometheus where that makes no
difference to them: `rate` and `increase` don't extrapolate.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import promql_parser as promql

Labels = frozenset[tuple[str, str]]
Series = Mapping[str, Mapping[Labels, Callable[[float], float | None]]]
"""Metric → labels → its value at a time in seconds."""
Vector = dict[Labels, float]

STEP_S = 15.0
_COMPARISONS = {">": operator.gt, ">=": operator.ge, "==": operator.eq}


def parsed(query: str) -> promql.Expr:
    for name, value in (("$__rate_interval", "1m"), ("$__range", "1h")):
        query = query.replace(name, value)
    return promql.parse(query)


def used(expression: Any) -> Iterator[tuple[str, str, str]]:
    """Metric, label and wanted value of each label matcher; no label and no value for the metric itself."""
    match expression:
        case promql.VectorSelector():
            assert expression.name is not None
            yield expression.name, "", ""
            for matcher in expression.matchers.matchers:
                yield expression.name, matcher.name, matcher.value
        case promql.MatrixSelector():
            yield from used(expression.vector_selector)
        case promql.AggregateExpr():
            inner = [*used(expression.expr)]
            yield from inner
            labels = expression.modifier.labels if expression.modifier else []
            yield from ((metric, label, "") for metric, _, _ in inner for label in labels)
        case promql.Call():
            for argument in expression.args:
                yield from used(argument)
        case promql.BinaryExpr():
            yield from [*used(expression.lhs), *used(expression.rhs)]
        case promql.ParenExpr():
            yield from used(expression.expr)
        case promql.NumberLiteral():
            pass
        case _:
            raise AssertionError(f"this test doesn't know {type(expression).__name__}")


def grouped_by(expression: Any) -> set[str] | None:
    """The labels of the result; None for all."""
    match expression:
        case promql.AggregateExpr():
            if expression.param is not None or (
                expression.modifier and expression.modifier.type == promql.AggModifierType.Without
            ):
                return None  # topk, for example
            return set(expression.modifier.labels) if expression.modifier else set()
        case promql.BinaryExpr():
            sides = (grouped_by(expression.lhs), grouped_by(expression.rhs))
            return next((side for side in sides if side), sides[0])
        case promql.Call():
            (*_, last) = expression.args or [None]
            return grouped_by(last)
    return None


def evaluate(expression: Any, series: Series, at: float) -> Vector:
    """The instant vector that a query returns at a time. Names of metrics aren't part of labels."""
    match expression:
        case promql.VectorSelector():
            found = _selected(expression, series)
            values = {labels: value(at) for labels, value in found.items()}
            return {labels: value for labels, value in values.items() if value is not None}
        case promql.ParenExpr():
            return evaluate(expression.expr, series, at)
        case promql.AggregateExpr():
            return _without(expression, series, at)
        case promql.Call():
            return _called(expression, series, at)
        case promql.BinaryExpr():
            return _combined(expression, series, at)
    raise AssertionError(f"this test doesn't know {type(expression).__name__}")


def _selected(selector: Any, series: Series) -> Mapping[Labels, Callable[[float], float | None]]:
    """The series of a metric whose labels match."""
    assert selector.name is not None
    found = series.get(selector.name, {})
    for matcher in selector.matchers.matchers:
        assert matcher.op == promql.MatchOp.NotRe, "no other is needed so far"
        found = {
            labels: value
            for labels, value in found.items()
            if re.fullmatch(matcher.value, dict(labels).get(matcher.name, "")) is None
        }
    return found


def _without(expression: Any, series: Series, at: float) -> Vector:
    assert (str(expression.op), expression.modifier.type) == ("sum", promql.AggModifierType.Without)
    sums: Vector = {}
    for labels, value in evaluate(expression.expr, series, at).items():
        left = frozenset(label for label in labels if label[0] not in expression.modifier.labels)
        sums[left] = sums.get(left, 0.0) + value
    return sums


def _called(expression: Any, series: Series, at: float) -> Vector:
    name, (argument,) = expression.func.name, expression.args
    if name == "absent":
        return {} if evaluate(argument, series, at) else {frozenset(): 1.0}
    selector, seconds = argument.vector_selector, argument.range.total_seconds()
    end = at - (selector.offset.total_seconds() if selector.offset else 0.0)
    found: Vector = {}
    for labels, value in _selected(selector, series).items():
        steps = int(seconds / STEP_S)  # a range doesn't include its start
        points = [point for step in range(steps) if (point := value(end - step * STEP_S)) is not None]
        if points:
            found[labels] = {
                "min_over_time": min(points),
                "max_over_time": max(points),
                "increase": points[0] - points[-1],
                "rate": (points[0] - points[-1]) / seconds,
            }[name]
    return found


def _combined(expression: Any, series: Series, at: float) -> Vector:
    left, how = evaluate(expression.lhs, series, at), str(expression.op)
    if isinstance(expression.rhs, promql.NumberLiteral):
        right = dict.fromkeys(left, expression.rhs.val)
    else:
        right = evaluate(expression.rhs, series, at)
    if how == "or":
        return {**right, **left}
    both = {labels: (value, right[labels]) for labels, value in left.items() if labels in right}
    if how == "and":
        return {labels: value for labels, (value, _) in both.items()}
    if how == "/":
        return {labels: value / by for labels, (value, by) in both.items() if by}
    return {labels: value for labels, (value, by) in both.items() if _COMPARISONS[how](value, by)}

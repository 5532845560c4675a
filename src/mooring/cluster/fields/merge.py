"""Merging and removing fields by the rules of server-side apply."""

from typing import Any

from mooring.cluster.fields.compare import below, element_step, elements
from mooring.cluster.fields.sets import FieldSet
from mooring.cluster.schema.shape import ANY, LIST, MAP, OBJECT, Shape


def merged(live: Any, config: Any, shape: Shape) -> Any:
    """Return the live value merged with the applied one. Neither is changed."""
    if isinstance(config, dict) and isinstance(live, dict) and shape.kind in {OBJECT, MAP, ANY} and not shape.atomic:
        result = dict(live)
        for key, value in config.items():
            result[key] = merged(live[key], value, below(shape, key)) if key in live else value
        return result
    if isinstance(config, list) and isinstance(live, list) and shape.kind == LIST and shape.list_type != "atomic":
        return _merged_lists(live, config, shape)
    return config


def _merged_lists(live: list[Any], config: list[Any], shape: Shape) -> list[Any]:
    """Return applied elements in their order, with other live elements at their relative place."""
    wanted, present = elements(config, shape), elements(live, shape)
    item = shape.item or Shape(ANY)
    result: list[Any] = []
    waiting = [step for step in present if step in wanted]
    pending = list(wanted)
    for step, value in present.items():
        if step not in wanted:
            result.append(value)
            continue
        if waiting and step == waiting[0]:
            while pending:
                following = pending.pop(0)
                known = following in present
                chosen = merged(present[following], wanted[following], item) if known else wanted[following]
                result.append(chosen)
                if following == step:
                    break
        waiting = [each for each in waiting if each in pending]
    rest = (merged(present[step], wanted[step], item) if step in present else wanted[step] for step in pending)
    return [*result, *rest]


def pruned(value: Any, gone: FieldSet, kept: FieldSet | None, shape: Shape) -> Any:
    """Return a value without the fields of a set, except those with owned fields below (`kept`)."""
    if isinstance(value, dict):
        return _pruned_fields(value, gone, kept, shape)
    if not isinstance(value, list):
        return value
    result = []
    for each in value:
        step = element_step(each, shape)
        inner, owned = gone.children.get(step), kept.children.get(step) if kept else None
        if inner is None:
            result.append(each)
        elif not (inner.member and owned is None):
            result.append(pruned(each, inner, owned, shape.item or Shape(ANY)))
    return result


def _pruned_fields(value: dict[str, Any], gone: FieldSet, kept: FieldSet | None, shape: Shape) -> dict[str, Any]:
    result = {}
    for key, each in value.items():
        step = f"f:{key}"
        inner, owned = gone.children.get(step), kept.children.get(step) if kept else None
        if inner is None:
            result[key] = each
        elif not (inner.member and owned is None):
            rest = pruned(each, inner, owned, below(shape, key))
            if rest not in ({}, []) or owned is not None:
                result[key] = rest
    return result

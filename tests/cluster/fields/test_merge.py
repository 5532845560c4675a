"""Merging and pruning."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.fields.compare import compare, set_of
from mooring.cluster.fields.merge import merged, pruned
from mooring.cluster.fields.sets import FieldSet
from mooring.cluster.schema.kubernetes import shape_of

_pods = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {}, optional={"labels": st.dictionaries(st.sampled_from("xyz"), st.sampled_from("ab"))}
        ),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "nodeName": st.sampled_from("ab"),
                "nodeSelector": st.dictionaries(st.sampled_from("xy"), st.sampled_from("ab")),
                "containers": st.lists(
                    st.fixed_dictionaries({"name": st.sampled_from("cde")}, optional={"image": st.sampled_from("ab")}),
                    unique_by=lambda each: each["name"],
                    max_size=3,
                ),
            },
        ),
    },
)


@given(_pods, _pods)
def test_merging_sets_what_is_applied_and_keeps_the_rest(live: dict[str, Any], config: dict[str, Any]) -> None:
    """What differs afterwards from the live object are fields of the applied one, and none is missing."""
    shape = shape_of("", "v1", "Pod")
    result = merged(live, config, shape)
    difference = compare(live, result, shape)
    applied = set_of(config, shape)
    assert set(difference.changed.minus(applied).paths()) <= set(_containers(applied))
    assert merged(result, config, shape) == result


@given(_pods, _pods)
def test_pruning_undoes_a_merge(live: dict[str, Any], config: dict[str, Any]) -> None:
    """Where nobody had anything before, nothing is left."""
    shape = shape_of("", "v1", "Pod")
    added = compare(live, merged(live, config, shape), shape).changed
    rest = pruned(merged({}, config, shape), set_of(config, shape), None, shape)
    assert rest == {}
    assert FieldSet.read(added.written()).written() == added.written()


def _containers(fields: FieldSet, prefix: str = "") -> set[str]:
    """All places above and at the members of a set."""
    found = {prefix}
    for step, each in fields.children.items():
        shown = next(FieldSet(member=True).paths(), "")
        part = FieldSet()
        part.children[step] = FieldSet(member=True)
        shown = next(part.paths(prefix))
        found |= {shown} | _containers(each, shown)
    return found

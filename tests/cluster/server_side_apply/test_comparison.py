"""Fields of documents."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.schema.shape import shape_of
from mooring.cluster.server_side_apply.comparison import encode_fields, set_of

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


@given(_pods)
def test_the_quick_way_to_write_fields_agrees_with_the_plain_one(value: dict[str, Any]) -> None:
    """Every new object takes the quick way."""
    shape = shape_of("", "v1", "Pod")
    assert encode_fields(value, shape) == set_of(value, shape).encode()

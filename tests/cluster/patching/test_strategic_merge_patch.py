"""Strategic merge patches."""

from typing import Any

import pytest

from mooring.cluster.errors import ApiError
from mooring.cluster.patching.strategic_merge_patch import strategic_merge_patch
from mooring.cluster.schema.shape import shape_of

POD = shape_of("", "v1", "Pod")


CONTAINERS = {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"containers": [{"name": "b", "image": "3"}]}, [("a", "1"), ("b", "3")]),
        # New elements come first, as in Kubernetes.
        ({"containers": [{"name": "c", "image": "3"}]}, [("c", "3"), ("a", "1"), ("b", "2")]),
        (
            {"containers": [{"name": "b", "image": "3"}, {"name": "c", "image": "4"}]},
            [("a", "1"), ("b", "3"), ("c", "4")],
        ),
        (
            {"containers": [{"name": "c", "image": "4"}, {"name": "b", "image": "3"}]},
            [("c", "4"), ("a", "1"), ("b", "3")],
        ),
        ({"containers": [{"name": "a", "$patch": "delete"}]}, [("b", "2")]),
        ({"containers": [{"$patch": "replace"}, {"name": "z", "image": "9"}]}, [("z", "9")]),
        ({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}, [("b", "2"), ("a", "1")]),
        (
            {
                "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
                "containers": [{"name": "c", "image": "3"}],
            },
            [("c", "3"), ("a", "1"), ("b", "2")],
        ),
        ({"$retainKeys": ["containers"], "containers": [{"name": "a", "image": None}]}, [("a", None), ("b", "2")]),
    ],
)
def test_strategic_merge_patches(patch: dict[str, Any], expected: list[tuple[str, str | None]]) -> None:
    """Lists merge by their keys, and orders beside the values are followed."""
    result = strategic_merge_patch(CONTAINERS, {"spec": patch}, POD)
    found = [(each["name"], each.get("image")) for each in result["spec"]["containers"]]
    assert found == expected


def test_primitive_lists_in_strategic_patches() -> None:
    """Merge where the field says so, and elements can be taken out."""
    old = {"metadata": {"finalizers": ["a", "b"]}, "spec": {"containers": [], "nodeSelector": {"x": "1", "y": "2"}}}
    patch = {
        "metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]},
        "spec": {"nodeSelector": {"x": None}},
    }
    result = strategic_merge_patch(old, patch, POD)
    assert result["metadata"]["finalizers"] == ["c", "b"]
    assert result["spec"]["nodeSelector"] == {"y": "2"}
    replaced = strategic_merge_patch(old, {"spec": {"nodeSelector": {"$patch": "replace", "z": "3"}}}, POD)
    assert replaced["spec"]["nodeSelector"] == {"z": "3"}
    with pytest.raises(ApiError, match="does not contain declared merge key: name"):
        strategic_merge_patch(CONTAINERS, {"spec": {"containers": [{"image": "x"}]}}, POD)

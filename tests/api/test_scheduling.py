"""PodGroups of scheduling.k8s.io, as the API server sends them."""

from __future__ import annotations

import msgspec
import pytest

from mooring.api.pod import PodSchedulingGroup
from mooring.api.scheduling import NativePodGroup, native_group_key
from mooring.testing import make_pod


@pytest.mark.parametrize(("policy", "minimum"), [("{}", 1), ('{"basic": {}}', 1), ('{"gang": {"minCount": 4}}', 4)])
def test_min_count(policy: str, minimum: int) -> None:
    text = f'{{"kind": "PodGroup", "metadata": {{"name": "g"}}, "spec": {{"schedulingPolicy": {policy}}}}}'
    assert msgspec.json.decode(text, type=NativePodGroup).spec.min_count == minimum


def test_the_group_of_a_pod() -> None:
    pod = make_pod("p").obj()
    assert native_group_key(pod) is None
    spec = msgspec.structs.replace(pod.spec, scheduling_group=PodSchedulingGroup(pod_group_name="g"))
    assert native_group_key(msgspec.structs.replace(pod, spec=spec)) == "default/g"

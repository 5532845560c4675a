"""PodGroup and the label by which a pod names it."""

from __future__ import annotations

from mooring.plugins.coscheduling.pod_group import LABEL, PodGroup, group_key
from mooring.testing import make_pod


def test_the_group_is_in_the_namespace_of_the_pod() -> None:
    assert group_key(make_pod("p", "team").label({LABEL: "gang"}).obj()) == "team/gang"
    assert group_key(make_pod("p").obj()) == ""
    assert group_key(make_pod("p").label({LABEL: ""}).obj()) == ""


def test_a_group_without_a_minimum_needs_no_other_pod() -> None:
    assert PodGroup().min_member == 0
    assert PodGroup(spec=PodGroup.Spec(min_member=3)).min_member == 3


def test_the_resource_is_that_of_scheduler_plugins() -> None:
    declaration = PodGroup.declaration
    assert (declaration.group, declaration.version) == ("scheduling.x-k8s.io", "v1alpha1")

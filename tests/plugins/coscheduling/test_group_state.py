"""State of groups: keys that expire, and the pods of each group."""

from __future__ import annotations

from mooring.api.pod import Pod
from mooring.framework import Handle
from mooring.plugins.coscheduling.group_state import Expiring, Members
from mooring.plugins.coscheduling.pod_group import LABEL, group_key
from mooring.testing import make_pod


def test_a_key_expires_and_is_not_extended() -> None:
    now = 0.0
    keys = Expiring(lambda: now)
    keys.add("a", 10)
    now = 9
    keys.add("a", 10)
    assert "a" in keys
    now = 11
    assert "a" not in keys
    keys.add("a", 10)
    keys.discard("a")
    keys.discard("a")
    assert "a" not in keys


def test_members_are_counted_by_state() -> None:
    handle = Handle()
    members = Members(handle.lister(Pod))
    for pod in (make_pod("a"), make_pod("b").gate("x"), make_pod("c").node("n")):
        handle.objects.put(pod.label({LABEL: "g"}).obj())
    handle.objects.put(make_pod("other").obj())
    group = "default/g"
    assert sorted(pod.name for pod in members.of(group)) == ["a", "b", "c"]
    assert (members.count(group), members.gated(group), members.assigned(group)) == (3, 1, 1)
    pending = next(pod for pod in members.of(group) if pod.name == "a")
    assert group_key(pending) == group
    assert members.assign(group, pending.uid) == 2
    members.unassign(group, pending.uid)
    assert members.assigned(group) == 1


def test_a_pod_that_is_created_again_under_its_name_is_another_one() -> None:
    handle = Handle()
    members = Members(handle.lister(Pod))
    group = "default/g"
    old, new = (make_pod("a").uid(uid).label({LABEL: "g"}) for uid in ("old", "new"))
    handle.objects.put(old.node("n").obj())
    # The deletion of the old one was not observed.
    handle.objects.put(new.obj())
    assert members.assigned(group) == 0
    # The binding of the old one fails after the new one has a node.
    assert members.assign(group, "new") == 1
    members.unassign(group, "old")
    assert members.assigned(group) == 1


def test_a_pod_that_is_deleted_while_it_is_bound_does_not_count() -> None:
    handle = Handle()
    members = Members(handle.lister(Pod))
    pod = make_pod("a").uid("a").label({LABEL: "g"}).obj()
    handle.objects.put(pod)
    members.assign("default/g", "a")
    handle.objects.remove(pod)
    assert members.assigned("default/g") == 0

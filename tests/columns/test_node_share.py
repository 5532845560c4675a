"""The share of a member: rendezvous hashing of nodes and pods."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.columns.node_share import NodeShare, decides, key_hash, owner_of, pod_key, weight, weights
from mooring.columns.table import NodeTable
from mooring.testing import make_node, make_pod

NAMES = st.sets(st.text("abcdef0123456789-", min_size=1, max_size=12), min_size=1, max_size=6)
KEYS = st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=30)


@given(NAMES, NAMES, KEYS)
def test_two_members_that_know_each_other_never_own_the_same_key(one: set[str], two: set[str], keys: list[str]) -> None:
    """Whatever other members each of them knows: the reason why no node has two owners."""
    for key in keys:
        first, second = owner_of(key, one), owner_of(key, two)
        if first != second:
            assert not {first, second} <= one & two


@given(NAMES, KEYS)
def test_a_member_that_leaves_moves_only_its_own_keys(members: set[str], keys: list[str]) -> None:
    for gone in members:
        for key in keys:
            before = owner_of(key, members)
            if before != gone:
                assert owner_of(key, members - {gone}) == before


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1), st.text())
def test_weights_are_the_same_one_by_one_and_in_columns(keys: list[int], member: str) -> None:
    hashed = key_hash(member)
    assert weights(hashed, np.array(keys, dtype=np.uint64)).tolist() == [weight(hashed, key) for key in keys]


def test_hashes_do_not_depend_on_the_process() -> None:
    assert "".join(owner_of(f"node-{number}", "abc") for number in range(12)) == "bcbbbccbbbbc"


def test_shares_are_about_equal_and_complete() -> None:
    table = NodeTable()
    for number in range(3000):
        table.add_node(make_node(f"node-{number}").obj())
    members = frozenset("abc")
    masks = []
    for me in sorted(members):
        share = NodeShare()
        share.set(me, members, frozenset(), active=True)
        masks.append(share.mask(table))
        assert [share.usable(node.name) for node in table.nodes] == masks[-1].tolist()
    assert np.sum(masks, axis=0).tolist() == [1] * 3000
    assert all(900 < mask.sum() < 1100 for mask in masks)


def test_nobody_uses_the_nodes_of_a_member_whose_binds_are_not_settled() -> None:
    names = [f"node-{number}" for number in range(300)]
    before = {name: owner_of(name, "abc") for name in names}
    shares = {me: NodeShare() for me in "ab"}
    for me, share in shares.items():
        share.set(me, frozenset("ab"), frozenset("c"), active=True)
    for name in names:
        users = [me for me, share in shares.items() if share.usable(name)]
        assert users == ([] if before[name] == "c" else [before[name]])
    for me, share in shares.items():
        share.set(me, frozenset("ab"), frozenset(), active=True)
    assert all(sum(share.usable(name) for share in shares.values()) == 1 for name in names)


def test_the_mask_follows_rows_that_move() -> None:
    table = NodeTable()
    for number in range(64):
        table.add_node(make_node(f"node-{number}").obj())
    share = NodeShare()
    share.set("a", frozenset("ab"), frozenset(), active=True)
    for name in ("node-3", "node-50", "node-0"):
        table.remove_node(name)
        assert share.mask(table).tolist() == [share.usable(node.name) for node in table.nodes]


def test_a_member_that_is_not_active_takes_nothing() -> None:
    table = NodeTable()
    table.add_node(make_node("node-1").obj())
    share = NodeShare()
    share.set("a", frozenset("a"), frozenset(), active=False)
    assert not share.takes(make_pod("pod").obj())
    assert not share.usable("node-1")
    assert not share.mask(table).any()


@pytest.mark.parametrize("number", range(8))
def test_the_pods_of_a_controller_or_group_stay_together(number: int) -> None:
    owned = [make_pod(f"pod-{each}").owner("ReplicaSet", f"set-{number}").obj() for each in range(4)]
    grouped = [make_pod(f"pod-{each}").label({"scheduling.x-k8s.io/pod-group": f"{number}"}).obj() for each in (1, 2)]
    for pods in (owned, grouped):
        assert all(pod_key(first) == pod_key(second) for first, second in pairwise(pods))


def test_the_owner_of_the_nominated_node_decides() -> None:
    pod = make_pod("pod").nominated("node-7").obj()
    assert decides(pod, "abc") == owner_of("node-7", "abc")


def test_the_pods_of_a_crashed_member_are_taken_at_once() -> None:
    share = NodeShare()
    share.set("a", frozenset("ab"), frozenset("c"), active=True)
    for number in range(60):
        pod = make_pod(f"pod-{number}").uid(f"uid-{number}").obj()
        assert share.takes(pod) == (decides(pod, "ab") == "a")


def test_a_chosen_node_may_be_used_until_its_new_owner_is_published() -> None:
    share = NodeShare()
    share.published = frozenset("a")
    share.set("a", frozenset("ab"), frozenset(), active=True)
    pod, names = make_pod("pod").obj(), [f"node-{number}" for number in range(20)]
    assert [name for name in names if share.usable(name)] != names
    assert all(share.may_bind(pod, name) for name in names)
    share.published = frozenset("ab")
    for name in names:
        assert share.may_bind(pod, name) == (share.takes(pod) and share.usable(name))

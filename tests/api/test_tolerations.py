"""Which taints a toleration covers."""

import pytest

from mooring.api.affinity import Taint, Toleration
from mooring.api.tolerations import tolerates, untolerated

TAINT = Taint(key="gpu", value="yes", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        (Toleration(key="gpu", operator="Equal", value="yes", effect="NoSchedule"), True),
        (Toleration(key="gpu", value="yes"), True),
        (Toleration(key="gpu", value="no"), False),
        (Toleration(key="gpu"), False),
        (Toleration(key="gpu", operator="Exists"), True),
        (Toleration(key="gpu", operator="Exists", value="ignored"), True),
        (Toleration(key="gpu", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="cpu", operator="Exists"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(value="yes"), True),
        (Toleration(), False),
        (Toleration(key="gpu", operator="Gt", value="1"), False),
        (Toleration(key="gpu", operator="Lt", value="9"), False),
        (Toleration(key="gpu", operator="exists"), False),
    ],
)
def test_tolerates(toleration, covered):
    assert tolerates(toleration, TAINT) is covered


def test_lt_and_gt_never_match_even_where_the_numbers_would():
    taint = Taint(key="level", value="5", effect="NoSchedule")
    assert not tolerates(Toleration(key="level", operator="Gt", value="1"), taint)
    assert not tolerates(Toleration(key="level", operator="Lt", value="9"), taint)


@pytest.mark.parametrize(
    ("operator", "limit", "value", "covered"),
    [
        ("Gt", "1", "5", True),
        ("Gt", "5", "5", False),
        ("Lt", "9", "5", True),
        ("Lt", "-3", "-4", True),
        ("Lt", "0", "-1", True),
        ("Lt", "9", "05", False),  # only canonical numbers are compared
        ("Lt", "+9", "5", False),
        ("Lt", "9", "", False),
        ("Lt", "9", "-0", False),
        ("Lt", "9", "five", False),
        ("Lt", "9", "\u0665", False),
        ("Lt", "9223372036854775807", "1", True),
        ("Lt", "9223372036854775808", "1", False),
        ("Gt", "-9223372036854775808", "1", True),
        ("Lt", "9" * 5000, "1", False),
        ("Ge", "1", "5", False),
    ],
)
def test_comparisons_need_their_gate_and_canonical_numbers(operator, limit, value, covered):
    toleration = Toleration(key="level", operator=operator, value=limit)
    taint = Taint(key="level", value=value, effect="NoSchedule")
    assert tolerates(toleration, taint, comparisons=True) is covered
    assert (untolerated([taint], [toleration], comparisons=True) is None) is covered
    assert not tolerates(toleration, taint)


def test_the_first_untolerated_taint_of_the_asked_effects():
    soft = Taint(key="soft", effect="PreferNoSchedule")
    first, second = Taint(key="first", effect="NoSchedule"), Taint(key="second", effect="NoExecute")
    taints = (soft, first, second)
    covers_first = Toleration(key="first", operator="Exists")
    assert untolerated(taints, ()) == first
    assert untolerated(taints, (covers_first,)) == second
    assert untolerated(taints, (Toleration(operator="Exists"),)) is None
    assert untolerated(taints, (), effects=("PreferNoSchedule",)) == soft
    assert untolerated((), ()) is None

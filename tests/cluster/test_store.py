"""The store."""

from mooring.cluster.store import Store


def test_history_is_limited() -> None:
    """Only the last changes are available; None tells a watch that it has to list again."""
    store = Store(history=3)
    for number in range(5):
        store.put("x", "", f"o{number}", {"metadata": {"name": f"o{number}"}})
    assert store.since("x", 1) is None
    changes = store.since("x", 2)
    assert changes is not None
    assert [each.version for each in changes] == [3, 4, 5]
    assert store.since("x", 5) == []

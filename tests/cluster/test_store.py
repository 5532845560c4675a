"""The store."""

from mooring.cluster.store import Store


def test_the_store_forgets_old_changes() -> None:
    """As many as it is told to remember; from before, nothing is answered."""
    store = Store(history=3)
    for number in range(5):
        store.put("x", "", f"o{number}", {"metadata": {"name": f"o{number}"}})
    assert store.since("x", 1) is None
    changes = store.since("x", 2)
    assert changes is not None
    assert [each.version for each in changes] == [3, 4, 5]
    assert store.since("x", 5) == []
    store.compact()
    assert store.since("x", 4) is None
    assert store.since("x", 5) == []

"""CycleState: typed entries, and clones for hypothetical changes."""

from __future__ import annotations

import pytest

from mooring.framework import CycleState, MissingStateError, StateKey

COUNT: StateKey[int] = StateKey("Test/count")
TALLY: StateKey[Tally] = StateKey("Test/tally")


class Tally:
    def __init__(self, number: int) -> None:
        self.number = number

    def clone(self) -> Tally:
        return Tally(self.number)


def test_entries_are_read_by_key() -> None:
    state = CycleState()
    assert state.get(COUNT) is None
    state.write(COUNT, 3)
    assert (state.read(COUNT), state.get(COUNT), len(state)) == (3, 3, 1)
    state.delete(COUNT)
    state.delete(COUNT)
    with pytest.raises(MissingStateError, match="Test/count is not in the cycle state"):
        state.read(COUNT)


def test_a_clone_clones_entries_that_can_be_cloned() -> None:
    state = CycleState()
    state.write(TALLY, Tally(1))
    state.skip_filter = {"A"}
    copy = state.clone()
    copy.read(TALLY).number = 2
    copy.write(COUNT, 1)
    assert state.read(TALLY).number == 1
    assert state.get(COUNT) is None
    assert copy.skip_filter == {"A"}


def test_entries_written_later_can_be_preloaded() -> None:
    state, other = CycleState(), CycleState()
    state.write(TALLY, Tally(1))
    state.write(COUNT, 5)
    assert state.written_since(1) == {COUNT: 5}
    other.preload(state.written_since(1))
    assert other.read(COUNT) == 5

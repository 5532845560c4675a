"""Tables."""

import pytest

from mooring.cluster.table_printer import human_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (600, "10m"),
        (10800, "3h"),
        (12000, "3h20m"),
        (172800, "2d"),
        (180000, "2d2h"),
        (86400 * 900, "2y170d"),
        (-5, "<invalid>"),
    ],
)
def test_ages(seconds: int, text: str) -> None:
    """As kubectl writes them."""
    assert human_duration(seconds) == text

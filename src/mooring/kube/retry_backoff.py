"""Exponential backoff with jitter for retries."""

from dataclasses import dataclass, field
from random import Random


@dataclass
class Backoff:
    """Delays that grow from `first` by `factor` to `cap`, each shortened at random by up to `jitter` of itself."""

    first: float = 0.5
    cap: float = 30.0
    factor: float = 2.0
    jitter: float = 0.5
    random: Random = field(default_factory=Random)
    #: The number of delays since the last reset.
    tries: int = 0

    def next(self) -> float:
        """Return the next delay in seconds."""
        # The exponent is bounded to avoid a float overflow.
        delay = min(self.cap, self.first * self.factor ** min(self.tries, 64))
        self.tries += 1
        return delay * (1 - self.jitter * self.random.random())

    def reset(self) -> None:
        """Start again at `first`, after a success."""
        self.tries = 0

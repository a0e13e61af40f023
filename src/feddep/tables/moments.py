"""Mean, deviation and skewness of a column that is seen a batch at a time."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


@dataclass
class Moments:
    """Count, mean, range, and sums of squared and cubed distances (Chan et al., 1979)."""

    count: int = 0
    mean: float = 0.0
    second: float = 0.0
    third: float = 0.0
    least: float = np.inf
    binary: bool = True

    def add(self, values: Floats) -> None:
        """Takes in some more values, NaN left out."""
        values = values[~np.isnan(values)].astype(np.float64)
        if not len(values):
            return
        count, mean = len(values), float(values.mean())
        apart = values - mean
        second, third = float(np.sum(apart**2)), float(np.sum(apart**3))
        whole, distance = self.count + count, mean - self.mean
        self.third += (
            third
            + distance**3 * self.count * count * (self.count - count) / whole**2
            + 3 * distance * (self.count * second - count * self.second) / whole
        )
        self.second += second + distance**2 * self.count * count / whole
        self.mean += distance * count / whole
        self.count = whole
        self.binary = self.binary and bool(np.isin(values, (0.0, 1.0)).all())
        self.least = min(self.least, float(values.min()))

    @property
    def deviation(self) -> float:
        """The standard deviation; 1 for a column that does not vary."""
        found = float(np.sqrt(self.second / self.count)) if self.count else 0.0
        return found if found > 1e-6 * max(1.0, abs(self.mean)) else 1.0

    @property
    def skewness(self) -> float:
        """The third standardised moment; 0 for a column that does not vary."""
        if self.count < 3 or self.second <= 0:
            return 0.0
        return float(np.sqrt(self.count) * self.third / self.second**1.5)

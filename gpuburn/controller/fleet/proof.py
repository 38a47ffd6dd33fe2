"""What so many failures in so many devices prove about the defect rate, in words. Exact, no approximation."""

from __future__ import annotations

from dataclasses import dataclass

from scipy import stats


@dataclass(frozen=True, slots=True)
class Proof:
    """low, high: the defect rates (shares) that this count cannot exclude; confidence: of that interval."""

    failed: int
    of: int
    low: float
    high: float
    confidence: float
    words: str


def proof(failed: int, of: int, confidence: float = 0.95) -> Proof:
    """The defect rates that remain possible. Raises ValueError unless 0 <= failed <= of and of >= 1.

    No failure: the one-sided bound 1 - (1 - confidence)**(1/of). Otherwise the two-sided interval of Clopper and
    Pearson (Biometrika 26, 1934).
    """
    if not 0 <= failed <= of or of < 1:
        raise ValueError(f"{failed} failed of {of}: not a count of failures")
    if failed == 0:
        low, high = 0.0, 1 - (1 - confidence) ** (1 / of)
        words = f"0 of {of} failed still allows {high:.1%} defects".replace("%", " %")
    else:
        interval = stats.binomtest(failed, of).proportion_ci(confidence_level=confidence, method="exact")
        low, high = float(interval.low), float(interval.high)
        words = f"{failed} of {of} failed: between {low:.1%} and {high:.1%} defects are possible".replace("%", " %")
    return Proof(failed, of, low, high, confidence, f"{words} ({100 * confidence:g} % confidence)")

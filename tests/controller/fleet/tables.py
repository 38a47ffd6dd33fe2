"""Small tidy tables for the tests of fleet statistics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd


def tidy(
    values: Sequence[float], about: str = "gemm.tflops", better: str = "higher", **columns: object
) -> pd.DataFrame:
    """One measurement of each device, 8 devices a host, 2 hosts a rack, 2 racks a power domain."""
    i = np.arange(len(values))
    host, rack, domain = ([f"{name}{k:03d}" for k in i // size] for name, size in (("h", 8), ("r", 16), ("p", 32)))
    table = pd.DataFrame({
        "host": host, "rack": rack, "power_domain": domain, "cohort": "H200", "subject": [f"gpu{k}" for k in i % 8],
        "slot": i % 8, "step": "gemm", "about": about, "unit": "TFLOP/s", "point": "", "better": better,
        "value": np.asarray(values, float), "cv": 0.005, "count": 30,
    }).assign(**columns)  # fmt: skip
    texts = ["host", "rack", "power_domain", "cohort", "subject", "step", "about", "unit", "point", "better"]
    return table.astype(dict.fromkeys(texts, "category"))


def healthy(n: int, metrics: int = 12, sd: float = 0.005, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    some = [tidy(700 * (1 + sd * rng.standard_normal(n)), f"probe.m{i:02d}") for i in range(metrics)]
    return pd.concat(some, ignore_index=True).assign(cv=sd * np.sqrt(rng.chisquare(29, n * metrics) / 29))

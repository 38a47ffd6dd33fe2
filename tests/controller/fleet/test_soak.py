"""Decay by its size: total Theil-Sen change after warm-up, no matter how the noise hangs together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gpuburn.controller.fleet import soak


def series(decline=0.0, hours=24, phi=0.9, sd=0.003, better="higher", warm=0.05, seed=1):
    at = np.arange(0, hours * 3600, 30.0)
    rng = np.random.default_rng(seed)
    noise, steps = np.empty(len(at)), rng.standard_normal(len(at)) * sd * np.sqrt(1 - phi**2)
    noise[0] = 0
    for i in range(1, len(at)):
        noise[i] = phi * noise[i - 1] + steps[i]
    value = 100 * (1 - decline * at / at[-1] + warm * (at < 1200) + noise)
    names = {"host": "h1", "subject": "gpu0", "step": "soak", "about": "gemm.tflops", "point": "", "better": better}
    return pd.DataFrame({**names, "at": at + 1.7e9, "value": value})


def test_a_flat_run_with_correlated_noise_and_a_fast_start_has_not_decayed():
    found = [soak.soak(series(seed=i), 0.01)[0] for i in range(20)]
    assert not any(one.decayed for one in found)
    assert found[0].hours == pytest.approx(23.5) and found[0].windows == 141


def test_a_decline_of_two_per_cent_is_told_by_its_size():
    (found,) = soak.soak(series(0.02), 0.01)
    assert found.decayed and found.change == pytest.approx(0.02, abs=0.003) and "limit is 1.00%" in found.why


def test_growing_latency_is_decay_and_growing_speed_is_not():
    grows = series(-0.03)
    assert not soak.soak(grows, 0.01)[0].decayed
    assert soak.soak(grows.assign(better="lower"), 0.01)[0].decayed


def test_a_short_run_cannot_be_told_and_it_is_said():
    (found,) = soak.soak(series(hours=1), 0.01)
    assert np.isnan(found.change) and not found.decayed and "3 windows" in found.why


def test_order_and_unit_change_nothing():
    table = series(0.02, hours=6)
    again = table.sample(frac=1, random_state=1).assign(value=lambda t: t["value"] * 1024)
    assert soak.soak(again, 0.01)[0].change == pytest.approx(soak.soak(table, 0.01)[0].change)


def test_a_limit_of_nothing_is_refused():
    with pytest.raises(ValueError, match="share above 0"):
        soak.soak(series(), 0.0)

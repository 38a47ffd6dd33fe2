"""What the fleet statistics find and whom they accuse, on synthetic fleets. Run by `make bench`; seeds are fixed.

Device spread is normal; values are rounded to 0.05 %; each device has 10 readings, whose spread is `ratio` times the
device spread (1 in the table, less in the stress rows). 12 metrics; a slow device is slow in one of them only.
"""

from __future__ import annotations

import concurrent.futures
import time

import numpy as np
import pandas as pd
from scipy import stats

from gpuburn.controller.fleet import critical, peers, position, spread

SIZES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
SPREADS = (0.0025, 0.005, 0.01)
METRICS, READINGS, STEP, SLOW = 12, 10, 0.0005, 0.03
SEED = 3
CHUNK = 1_500_000  # values at once
WANTED = {8: 85.0, 64: 95.0, 128: 95.0}


def test_peers_in_synthetic_fleets():
    """At most 2 % of healthy fleets have any finding; a slow device is found nearly as often as theory allows."""
    print(f"\n{'GPUs':>5} {'spread':>7} {'false %':>8} {'fleets':>7} {'found %':>8} {'devices':>8} {'bound %':>8}")
    cells = [(n, sd) for n in SIZES for sd in SPREADS]
    with concurrent.futures.ProcessPoolExecutor() as pool:
        rows = list(pool.map(_cell, reversed(cells)))[::-1]
    for row in rows:
        print("{:5} {:7.2%} {:8.2f} {:7} {:8.1f} {:8} {:8.1f}".format(*row))
    assert not [row for row in rows if row[2] > 2]
    assert not [row for row in rows if row[1] == 0.005 and row[4] < WANTED.get(row[0], row[6] - 8)]


def _cell(cell: tuple[int, float]) -> tuple[int, float, float, int, float, int, float]:
    n, sd = cell
    fleets = 400 if sd == 0.0025 else 20_000 if n <= 512 else 4000 if n == 1024 else 2000
    slow = 40_000 if n == 128 and sd == 0.005 else 4000 if n <= 512 else 400
    return n, sd, _rate(n, sd, 1.0, fleets), fleets, _rate(n, sd, 1.0, slow, SLOW), slow, _bound(n, sd)


def test_peers_where_readings_tell_little_about_devices():
    """Stress: devices repeat better (or worse) than they resemble each other, in all metrics or in some."""
    rows = {
        "0.5": 0.5, "0.25": 0.25, "0": 0.0, "2": 2.0, "1, one metric 0.5": [1] * 11 + [0.5],
        "half 1, half 0.5": [1] * 6 + [0.5] * 6, "half 1, half 0.25": [1] * 6 + [0.25] * 6,
    }  # fmt: skip
    print(f"\n{'GPUs':>5} {'ratio':>18} {'false % at 1 %':>15} {'found % at 0.5 %':>17}")
    cells = [(n, name, ratio) for n in (8, 16, 32, 64, 128) for name, ratio in rows.items()]
    with concurrent.futures.ProcessPoolExecutor() as pool:
        false = list(pool.map(_rate, *zip(*[(n, 0.01, ratio, 4000) for n, _, ratio in cells])))
        found = list(pool.map(_rate, *zip(*[(n, 0.005, ratio, 2000, SLOW) for n, _, ratio in cells])))
    for (n, name, ratio), wrong, right in zip(cells, false, found):
        print(f"{n:5} {name:>18} {wrong:15.2f} {right:17.1f}")
        assert wrong <= 2.4 or isinstance(ratio, list)


def _rate(n: int, sd: float, ratio: object, fleets: int, slow: float = 0.0) -> float:
    """Per cent of fleets with any finding (healthy), or in which the slow device is found."""
    rng = np.random.default_rng([SEED, n, round(sd * 1e4), bool(slow)])
    at_once = max(1, min(fleets, CHUNK // (n * METRICS)))
    hits = sum(_found(rng, n, sd, ratio, min(at_once, fleets - i), slow) for i in range(0, fleets, at_once))
    return 100 * hits / fleets


def _found(rng: np.random.Generator, n: int, sd: float, ratio: object, fleets: int, slow: float) -> int:
    shape = fleets, METRICS, n
    values = 1 + sd * rng.standard_normal(shape)
    values[:, 0, 0] -= slow
    values = (np.round(values / STEP) * STEP).reshape(-1, n)
    noise = np.sqrt(rng.standard_gamma((READINGS - 1) / 2, shape) * 2 / (READINGS - 1))
    cv = (sd * np.broadcast_to(np.asarray(ratio, float), METRICS)[:, None] * noise).reshape(-1, n)
    worse = -spread.deviations(values)[1]
    between, rest, within = peers.measure(worse, cv, np.full(cv.shape, float(READINGS)))
    cohort = np.repeat(np.arange(fleets), METRICS)
    groups = pd.DataFrame({"cohort": cohort, "n": n, "between": between, "rest": rest, "within": within})
    limit = peers.limits(groups, n * METRICS)["limit"].to_numpy()
    if slow:
        return int((worse[::METRICS, 0] > limit[::METRICS]).sum())
    return int((worse.max(axis=1) > limit).reshape(fleets, METRICS).any(axis=1).sum())


def _bound(n: int, sd: float) -> float:
    """Per cent found by an oracle that knows median and spread and accuses as rarely."""
    z = critical.tail(n * METRICS, peers.RULE.alpha)
    return 100 * float(stats.norm.cdf((SLOW - max(peers.RULE.delta, z * sd)) / sd))


def fleet(rng: np.random.Generator, hosts: int, sd: float, metrics: int = METRICS) -> pd.DataFrame:
    """A tidy table of hosts of 8 GPUs, 4 hosts a rack and 4 racks a power domain."""
    i = np.tile(np.arange(hosts * 8), metrics)
    host, slot, about = i // 8, i % 8, np.repeat(np.arange(metrics), hosts * 8)
    value = np.round(700 * (1 + sd * rng.standard_normal(len(i))))
    noise = np.sqrt(rng.chisquare(READINGS - 1, len(i)) / (READINGS - 1))
    names = {"host": host, "rack": host // 4, "power_domain": host // 16, "subject": slot, "about": about}
    text = {key: pd.Series(one).map("{:05d}".format).astype("category") for key, one in names.items()}
    same = {"cohort": "c", "step": "s", "unit": "TFLOP/s", "point": "", "better": "higher"}
    fixed = {key: pd.Categorical([one]).repeat(len(i)) for key, one in same.items()}
    return pd.DataFrame({**text, **fixed, "slot": slot, "value": value, "cv": sd * noise, "count": READINGS})


def test_places_are_named_for_what_they_are():
    """60 % of the devices, one rack, one power domain or one slot 4 % slow in one metric; and nothing at all."""
    rng = np.random.default_rng(SEED)
    print(f"\n{'GPUs':>5} {'spread':>7} {'slow':>14} {'named so %':>11} {'also other %':>13} {'fleets':>7}")
    for hosts in (16, 64):
        for sd in SPREADS:
            for kind in ("nothing", "majority", "rack", "power_domain", "slot"):
                if kind == "power_domain" and hosts < 32:
                    continue
                seen = [_places(rng, hosts, sd, kind) for _ in range(20)]
                right, other = (100 * sum(one) / len(seen) for one in zip(*seen))
                print(f"{hosts * 8:5} {sd:7.2%} {kind:>14} {right:11.0f} {other:13.0f} {len(seen):7}", flush=True)
                assert right >= 95 and other <= 10


def _places(rng: np.random.Generator, hosts: int, sd: float, kind: str) -> tuple[bool, bool]:
    table = fleet(rng, hosts, sd, 4)
    about = table["about"] == "00000"
    at = {"rack": "00001", "power_domain": "00001", "slot": 3}
    bad = about & ((table[kind] == at[kind]) if kind in at else (rng.random(len(table)) < 0.6))
    if kind != "nothing":
        table.loc[bad, "value"] *= 0.96
    references = pd.DataFrame({"about": table["about"].cat.categories, "reference": 700.0})
    named = position.majority(table, references) + position.places(table)
    wanted = set() if kind == "nothing" else {(kind, str(at.get(kind, "c")), "00000")}
    got = {(one.kind, one.name, one.about) for one in named}
    return wanted <= got, bool(got - wanted)


def test_ten_thousand_hosts_take_seconds():
    table = fleet(np.random.default_rng(SEED), 10_000, 0.005, 40)
    start = time.perf_counter()
    compared = peers.compare(table)
    middle = time.perf_counter()
    position.places(table)
    print(f"\n{len(table):,} measurements of 10,000 hosts: peers {middle - start:.1f} s, places "
          f"{time.perf_counter() - middle:.1f} s, {len(compared.findings)} findings")  # fmt: skip

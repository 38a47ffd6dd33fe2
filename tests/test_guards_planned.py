"""Guards that a plan has only where a step loads in steps, and only in that step."""

from __future__ import annotations

import runs

from gpuburn import planning


def test_a_step_that_pulses_ends_when_a_board_is_held_back():
    asked = runs.hardware(power="")
    plan = planning.make(asked, "0" * 32, runs.ISSUED)
    held = {guard.name: guard.probes for guard in plan.guards if guard.probes}
    assert held == dict.fromkeys(planning.BRAKES, ("power_steps",))
    assert all(guard.max == 0.0 and guard.unit == "s" for guard in plan.guards if guard.probes)


def test_without_such_a_step_nothing_of_it_is_guarded():
    plan = planning.make(runs.hardware(power="no budget"), "0" * 32, runs.ISSUED)
    assert not [guard for guard in plan.guards if guard.probes]

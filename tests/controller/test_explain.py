"""A plan explained: every limit once, with the plan's own numbers, and told apart by what it can do to a host."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import runs

from gpuburn import planning, policy as policies, strict
from gpuburn.controller import applicable, chosen, explain, explain_text
from gpuburn.controller.__main__ import main
from gpuburn.controller.chosen import Selection
from gpuburn.controller.explain import Group
from gpuburn.decision import Case, decide
from gpuburn.finding import Verdict
from gpuburn.limit import Limit, Reference
from gpuburn.plan import LEVELS, Plan
from gpuburn.planning import Request
from gpuburn.strict import Refused

ORDER = {"sku": "h200-sxm", "count": 8, "profiles": ["training", "inference"]}
PLANS = [
    runs.request(profiles=("training", "inference")),
    *(runs.hardware(profiles=("training", "inference"), level=level, count=8) for level in LEVELS),
    runs.hardware(profiles=("inference",), level="quick", environment="vm", sku="l4"),
    runs.hardware(profiles=("training",), kind="simulated"),
]
each_plan = pytest.mark.parametrize("asked", PLANS, ids=lambda one: f"{one.kind}-{one.level}-{one.sku}")


def group(asked: Request, **changed: Any) -> Group:
    plan = planning.make(asked, runs.NONCE, runs.ISSUED)
    return Group(**{"plan": plan, "policy": policies.load(), "hosts": [plan.host], "allowed": 60.0, **changed})


def order(**changed: Any) -> Group:
    [one] = chosen.groups(Selection(**{**ORDER, **changed}))
    return one


@each_plan
def test_every_limit_of_the_plan_is_in_exactly_one_demand(asked: Request) -> None:
    one = group(asked)
    found = [limit for demand in explain.demands(one) for limit in demand.limits]
    assert sorted(map(strict.line, found)) == sorted(map(strict.line, one.plan.limits))
    assert len(found) == len(one.plan.limits)


@each_plan
def test_what_can_reject_is_what_the_limits_say(asked: Request) -> None:
    one = group(asked)
    can = sum(limit.can_reject for limit in one.plan.limits)
    told = explain.told(one)
    assert told["counts"]["rejects"] == can
    assert sum(told["counts"].values()) == len(one.plan.limits) == len(told["limits"])
    assert sum(limit["can_reject"] for limit in told["limits"]) == can
    assert sum(len(d.limits) for d in explain.demands(one) if d.does == "rejects") == can
    assert f"{len(one.plan.limits)} limits, {can} can reject" in explain.in_short(one.plan)
    assert f"{len(one.plan.limits)} limits: {can} can reject" in explain_text.text([one])


@each_plan
def test_the_numbers_for_machines_are_the_plans(asked: Request) -> None:
    one = group(asked)
    for limit, told in zip(one.plan.limits, explain.told(one)["limits"], strict=True):
        assert {key: told[key] for key in strict.plain(limit)} == strict.plain(limit)


@each_plan
def test_the_text_names_every_quantity_and_fits_the_terminal(asked: Request) -> None:
    one = group(asked)
    lines = explain_text.text([one]).splitlines()
    assert max(map(len, lines)) <= 100
    flowing = " ".join(" ".join(lines).split())
    assert {limit.about for limit in one.plan.limits if limit.about not in flowing} == set()
    for step in one.plan.steps:
        assert f" {step.name} " in flowing
        assert step.because in flowing


@pytest.mark.parametrize(
    ("limit", "does", "wish", "edge"),
    [
        (Limit("a.b", "s", "r", max=60.0), "rejects", "<= 60 s", ""),
        (Limit("a.b", "1", "r", min=0.95, max=1.0), "rejects", ">= 0.95 and <= 1", ""),
        (Limit("a.b", "count", "r", min=8.0, max=8.0), "rejects", "= 8 count", ""),
        (Limit("a.b", "W", "r", of="c.d", warn_below=0.9), "warns", "", "< 0.9 x c.d"),
        (Limit("a.b", "W", "r", of="c.d", fail_below=0.7, warn_below=0.9), "rejects", ">= 0.7 x c.d", "< 0.9 x c.d"),
        (Limit("a.b", "s", "r", max=60.0, confidence="medium"), "warns", "<= 60 s", ""),
        (Limit("a.b", "", "r", equals="x"), "rejects", "= x", ""),
        (Limit("a.b", "", "r", agree="cohort"), "rejects", "the same over the cohort", ""),
        (Limit("a.b", "s", informational="why"), "recorded", "", ""),
        (Limit("a.b", "s", informational="why", uncalibrated=True), "uncalibrated", "", ""),
        (Limit("a.b", "s", "r", warn_above=1.0), "warns", "", "> 1 s"),
    ],
)
def test_a_limit_in_words(limit: Limit, does: str, wish: str, edge: str) -> None:
    assert (explain.does(limit), explain.wish(limit), explain.edge(limit)) == (does, wish, edge)
    assert (explain.cannot(limit) == "") == limit.can_reject


@pytest.mark.parametrize(
    ("limit", "variables", "number", "source"),
    [
        (Limit("a.b", "s", "r", max=1.0), [], "absolute", "limits.yml"),
        (Limit("a.b", "s", "r", max=1.0, source="site"), ["gpuburn_limits"], "the contract or site", "gpuburn_limits"),
        (Limit("a.b", "s", "r", max=1.0, source="site"), [], "the contract or site", "the inventory"),
        (Limit("a.b", "s", "r", max=1.0, source="contract"), [], "the order", ""),
        (
            Limit("a.b", "W", "r", of="c.d", warn_below=0.9),
            [], "a share of c.d, measured in the same result", "limits.yml",
        ),
        (
            Limit("a.b", "W", "r", min=85.0, source="sku", reference=Reference("h g", 100.0, "a paper", "sustained")),
            [], "0.85 x 100 W, h g, method sustained, confidence high", "a paper",
        ),
        (
            Limit("a.b", "W", "r", max=110.0, source="baseline", reference=Reference("baseline b", 100.0, "run r")),
            [], "1.1 x 100 W, baseline b, confidence high", "run r",
        ),
        (Limit("a.b", "W", informational="why"), [], "", ""),
    ],
)  # fmt: skip
def test_where_a_number_comes_from(limit: Limit, variables: list[str], number: str, source: str) -> None:
    assert explain.origin(limit, variables) == (number, source)


def test_performance_metrics_that_cannot_reject_are_named_with_why() -> None:
    told = explain.performance(order(sku="h100-sxm5-80gb").plan)
    assert told.can == ["memory_bandwidth.triad", "gemm.tflops", "copies.h2d", "copies.d2h", "allreduce.busbw"]
    assert "train.tokens" in told.cannot
    assert told.cannot["serve.gap"] == ["no reference number of this engine and mode"]
    assert not set(told.can) & set(told.cannot)
    assert "b200 has no gemm_bf16" in explain.performance(order(sku="b200").plan).cannot["gemm.tflops"][0]


def test_a_promise_that_no_limit_speaks_of_cannot_reject_either() -> None:
    told = explain.performance(order(level="quick").plan)
    assert any("no limit at level quick" in why for why in told.cannot["serve.ttft_p99"])


def test_the_cost_is_the_plans_time_and_the_boards_power() -> None:
    one = order(level="standard")
    told = explain.told(one)
    assert told["expected"] == one.plan.expected() == sum(step["expected"] for step in told["steps"])
    assert told["allowed"] == one.plan.deadline - one.plan.issued
    assert told["gpus_peak_kw"] == pytest.approx(8 * 0.7)
    assert told["gpus_energy_kwh"] == pytest.approx(5.6 * one.plan.expected() / 3600)
    assert "GPUs only" in explain_text.power(one)
    assert "22.4 kW" in explain_text.power(dataclasses.replace(one, hosts=list("abcd")))
    assert explain.peak_kw(group(PLANS[0]).plan) == 0
    assert "no figure" in explain_text.power(group(PLANS[0]))


def test_an_order_has_the_criteria_of_the_run_that_it_leads_to() -> None:
    asked = runs.hardware(profiles=("training", "inference"), sku="h200-sxm", count=8, level="standard",
                          addresses=("0000:17:00.0",), run="20260101T000000Z-1111", host="other")  # fmt: skip
    assert order().digest == planning.make(asked, runs.NONCE, runs.ISSUED).criteria


@each_plan
def test_rows_that_are_told_decide_as_the_whole_policy_does(asked: Request) -> None:
    one = group(asked)
    rows = applicable.rows(one.policy, one.plan)
    policy = dataclasses.replace(policies.load(), rows=rows)
    marks = [frozenset(), *(frozenset({mark}) for mark in applicable.ALWAYS | applicable.marks(one.plan))]
    marks.append(frozenset().union(*marks))
    reached = ("judged", "never_reached", "not_started", "lost", "vanished", "uncollected", "refused")
    cases = [
        Case(how, verdict if how == "judged" else None, asked.kind, asked.level, asked.environment, marked)
        for how in reached
        for verdict in (Verdict.PASS, Verdict.FAIL, Verdict.INCOMPLETE)
        for marked in marks
    ]
    for case in cases:
        assert decide(policy, case) == decide(policies.load(), case)
    decided = {decide(policy, case).because for case in cases}
    conditions = {c.condition for case in cases for c in decide(policy, case).conditions}
    assert {row.because for row in rows if row.because not in decided and row.condition not in conditions} == set()


def test_rows_for_another_level_or_kind_are_not_told() -> None:
    told = {str(row.decision) for row in applicable.rows(policies.load(), order(level="quick").plan)}
    assert "accepted" not in told
    assert "conditional" not in told
    assert "trial passed" in told


def test_limits_of_a_file_are_the_contracts(tmp_path: Path) -> None:
    file = tmp_path / "annex.yml"
    file.write_text("train.tokens: {min: 9000, unit: token/s, because: annex B}\n")
    one = order(limits=file)
    [demand] = [d for d in explain.demands(one) if d.about == "train.tokens" and d.steps == ["train"]]
    assert (demand.does, demand.wish, demand.because) == ("rejects", ">= 9000 token/s", "annex B")
    assert (demand.number, demand.source) == ("the contract or site", str(file))
    file.write_text("gpuburn_limits_b:\n  train.tokens: {min: 9000, unit: token/s, because: annex B}\n")
    assert order(limits=file).digest == one.digest


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1]", "wanted is a mapping of probe.metric to a limit"),
        ("gpuburn_limits: {}\ngemm.tflops: {}", "gpuburn_limits beside other keys"),
        ("gemm.tflop: {min: 1, unit: TFLOP/s, because: b}", "did you mean 'tflops'"),
        ("gemm.tflops: {min: 1}", "a limit needs a reason"),
        ("gemm.tflops: {min: 1, min: 2}", "written twice"),
    ],
)
def test_a_wrong_file_of_limits_is_named(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "annex.yml"
    file.write_text(text)
    with pytest.raises(Refused, match=f"^{file}.*{says}") as refused:
        order(limits=file)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"sku": "h201-sxm"}, "command line: host order: gpuburn_sku: unknown 'h201-sxm'; did you mean 'h200-sxm'"),
        ({"count": 0}, "gpuburn_gpu_count is 0"),
        ({"profiles": []}, "gpuburn_profiles is not set"),
        ({"level": "standart"}, "'standart' is not one of"),
        ({"run": runs.RUN}, "two ways at once to choose a plan; wanted is --inventory"),
        ({"pattern": "all"}, "two ways at once"),
        ({"hosts": ["x"]}, "--host goes with --run"),
        ({"limits": Path("/nowhere")}, "/nowhere: not a file"),
    ],
)
def test_a_wrong_choice_is_refused_in_one_line(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(Refused, match=says) as refused:
        order(**changed)
    assert len(str(refused.value).splitlines()) == 1


def test_no_choice_at_all_names_the_three() -> None:
    with pytest.raises(Refused, match=r"nothing to choose a plan; wanted is --inventory or -l .* --sku .* or --run"):
        chosen.groups(Selection())


def kept(reports: Path, *plans: Plan) -> None:
    run = runs.home(reports, *plans)
    assert run.id == runs.RUN


def of_run(reports: Path, *hosts: str) -> list[Group]:
    return chosen.groups(Selection(run=runs.RUN, reports=reports, hosts=list(hosts)))


def test_a_runs_kept_plans_are_told_once_for_equal_criteria(tmp_path: Path) -> None:
    plans = [planning.make(runs.request(host=name), name * 16, runs.ISSUED) for name in ("n1", "n2")]
    other = planning.make(runs.request(host="n3", profiles=("inference",)), runs.NONCE, runs.ISSUED)
    kept(tmp_path, *plans, other)
    one, two = of_run(tmp_path)
    assert (one.hosts, two.hosts) == (["n1", "n2"], ["n3"])
    assert one.digest == plans[0].criteria == plans[1].criteria
    assert one.policy == policies.load()
    [alone] = of_run(tmp_path, "n3")
    assert alone.hosts == ["n3"]
    with pytest.raises(Refused, match=r"run .*: --host: unknown 'n4'"):
        of_run(tmp_path, "n4")


def test_a_kept_plan_with_another_digest_than_it_says_is_refused(tmp_path: Path) -> None:
    kept(tmp_path, planning.make(runs.request(), runs.NONCE, runs.ISSUED))
    path = tmp_path / runs.RUN / "hosts" / "node1" / "plan.json"
    runs.edit(path, lambda plan: plan["steps"][0].update(timeout=900.0))
    with pytest.raises(Refused, match=f"^{path}: criteria is .*; its contents amount to"):
        of_run(tmp_path)


def test_a_policy_that_is_not_here_is_said_and_not_replaced(tmp_path: Path) -> None:
    plan = dataclasses.replace(planning.make(runs.request(), runs.NONCE, runs.ISSUED), policy="0" * 64, criteria="")
    kept(tmp_path, plan)
    [one] = of_run(tmp_path)
    assert one.policy is None
    assert "the policy with the digest 0000" in explain_text.text([one])


INVENTORY = """
all:
  hosts:
    bare: {}
  children:
    racks:
      vars: {gpuburn_sku: h200-sxm, gpuburn_gpu_count: 8, gpuburn_profiles: [training],
             gpuburn_home: "{{ inventory_dir }}/x"}
      children:
        r1: {hosts: {n1: {}, n2: {gpuburn_rack: two}}}
        r2: {hosts: {n3: {gpuburn_limits_b: {train.tokens: {min: 9000, unit: token/s, because: annex}}}}}
        r3: {hosts: {n4: {gpuburn_level: "{{ wished | default('quick') }}"}}}
"""


@pytest.fixture
def inventory(tmp_path: Path) -> str:
    path = tmp_path / "hosts.yml"
    path.write_text(INVENTORY)
    return str(path)


def test_hosts_of_an_inventory_are_chosen_by_ansibles_patterns(inventory: str) -> None:
    one, two = chosen.groups(Selection(inventory=inventory, pattern="racks:!r3"))
    assert (one.hosts, two.hosts) == (["n1", "n2"], ["n3"])
    [demand] = [d for d in explain.demands(two) if d.about == "train.tokens" and d.steps == ["train"]]
    assert demand.source == "gpuburn_limits_b"


def test_a_variable_of_the_command_line_stands_over_the_inventorys(inventory: str) -> None:
    [one] = chosen.groups(Selection(inventory=inventory, pattern="r3", extra=["gpuburn_level=soak"]))
    assert (one.hosts, one.plan.level) == (["n4"], "soak")


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("r3", r"host n4: gpuburn_level is .\{\{ wished .*a template .*`ansible-playbook accept.* -l r3 --check`"),
        ("bare", "hosts.yml: host bare: gpuburn_profiles is not set"),
        ("nobody", "hosts.yml: no host matches; wanted is -l"),
    ],
)
def test_what_an_inventory_does_not_say_is_refused_by_name(inventory: str, pattern: str, says: str) -> None:
    with pytest.raises(Refused, match=says):
        chosen.groups(Selection(inventory=inventory, pattern=pattern))


def test_an_inventory_that_is_not_there_is_refused() -> None:
    with pytest.raises(Refused, match="/nowhere: Ansible cannot read it"):
        chosen.groups(Selection(inventory="/nowhere"))


def test_the_example_racks_share_one_explanation() -> None:
    root = Path(__file__).parents[2]
    [one] = chosen.groups(Selection(inventory=str(root / "inventory/example"), pattern="rack_a01"))
    assert len(one.hosts) == 4
    assert json.loads(json.dumps(explain.told(one)))["hosts"] == one.hosts
    [demand] = [d for d in explain.demands(one) if d.about == "gemm.tflops" and d.steps == ["gemm"]]
    assert demand.wish == ">= 620 TFLOP/s"


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


LINE = ("plan", "--explain", "--sku", "h200-sxm", "--count", "8", "--profile", "training", "--profile", "inference")


def test_the_command_explains_an_order_for_a_person_and_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    status, text, _ = called(capsys, *LINE)
    assert (status, text) == (0, explain_text.text([order()]) + "\n")
    status, told, _ = called(capsys, *LINE, "--json")
    assert (status, json.loads(told)) == (0, json.loads(json.dumps([explain.told(order())])))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("plan",), "gpuburn: plan: --explain is missing; without it wanted is --run alone"),
        (("plan", *LINE[2:]), "gpuburn: plan: --explain is missing"),
        (("plan", "--explain"), "gpuburn: nothing to choose a plan; wanted is"),
        (("plan", "--explain", "--run", "x"), "gpuburn: run id 'x'"),
    ],
)
def test_the_command_refuses_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    status, out, error = called(capsys, *arguments)
    assert (status, out) == (3, "")
    assert error.startswith(says)
    assert len(error.splitlines()) == 1

"""Every variable that a site may set for a host, with its type and meaning. What is not here is a typo, and refused."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal

import yaml

from gpuburn import planning, storage as storages, strict
from gpuburn.controller.run import NAME, PLAIN
from gpuburn.plan import Environment, Kind, Level
from gpuburn.strict import Refused, known

PREFIX = "gpuburn_"
LIMITS = "gpuburn_limits"  # any variable that begins so holds limits: gpuburn_limits, gpuburn_limits_rack_a01, ...
INTERNAL = ("gpuburn_stopped",)  # facts that the playbooks set themselves, and no site
SECRETS = ("gpuburn_bmc_password",)
GIVEN = "(given)"  # all that is known here of a secret that is set
GRACE = (0.0, 604_800.0)  # seconds: a week is longer than any run that somebody waits for
COUNTS = {"gpu_count": (0, 64), "processes": (1, 1024)}  # of one host


def variable(doc: str, default: Any = dataclasses.MISSING, factory: Any = dataclasses.MISSING) -> Any:
    if factory is not dataclasses.MISSING:
        return field(default_factory=factory, metadata={"doc": doc})
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True, slots=True)
class Site:
    """One host's variables, without their prefix gpuburn_."""

    # variable() makes a dataclass field with its documentation; nothing is shared between instances.
    # ruff: noqa: RUF009
    profiles: list[str] = variable("what the host is to be good for: training, inference or both", factory=list)
    level: Level = variable("how long and how large: smoke, quick, standard, soak", "standard")
    steps: list[str] = variable("only these steps, at a level that cannot accept; empty: all", factory=list)
    kind: Kind = variable(
        "hardware; rehearsal: the same steps on the host's CPU; simulated: with a stand-in for NVML; neither accepts",
        "hardware",
    )
    environment: Environment = variable(
        "bare_metal, vm or container: what the host cannot show is listed", "bare_metal"
    )
    sku: str = variable("the GPU model that was ordered (gpuburn sku list)", "")
    gpu_count: int = variable("how many GPUs were ordered for this host", 0)
    processes: int = variable("processes of a rehearsal", 3)
    baseline: str = variable("baseline that judges what has no reference number (gpuburn baseline list)", "")
    delivery: str = variable("the order or lot that the host belongs to", "")
    rack: str = variable("rack", "")
    unit: str | int = variable("rack unit", "")
    power_domain: str = variable("feed, PDU or busway that the host hangs on", "")
    power_budget_kw: float = variable(
        "what the GPUs of all hosts on the power domain may draw together; without it no load is stepped on purpose",
        0.0,
    )
    storage: str = variable(
        "folder on the file system that the customer will use, on the host; without it: local disk only", ""
    )
    storage_gib: float = variable(
        "GiB that one step of a host may write there in all; a step that would write more writes less", storages.CAP
    )
    storage_writers: int = variable("hosts that may write there at once, where they share it", storages.WRITERS)
    become: bool = variable(
        "whether the host's tasks use become (root); false only for a rehearsal as a plain user", True
    )
    user: str = variable("account of the workers on the host", "gpuburn")
    home: str = variable("where the agent is installed on the host", "/opt/gpuburn")
    state_dir: str = variable("where run folders are kept on the host", "/var/lib/gpuburn")
    python: str = variable("Python (3.10 or newer) that the host's venv is made with", "/usr/bin/python3")
    torch_version: str = variable("version of torch to install on the host (2.13.0)", "")
    torch_index: str = variable("package index for torch, for example a CPU-only one", "")
    wheelhouse: str = variable("folder of wheels on the controller, for hosts without a route out", "")
    cache_dir: str = variable("where the controller keeps the agent's wheel (.cache)", "")
    reports_dir: str = variable("where runs are kept on the controller (reports); with -e only", "")
    grace: float = variable("seconds that a run may take over all its timeouts: one boot of the host", planning.GRACE)
    wait: bool = variable("false: start and return at once; with -e only", True)
    run: str = variable("run id to come back to; with -e only", "")
    policy: str = variable("file on the controller that says what verdicts lead to, for the whole run", "")
    waivers: str = variable("file of waivers on the controller, for the whole run (gpuburn waiver check)", "")
    manifest: str = variable(
        "the vendor's list (CSV) of what was ordered, for the whole run (gpuburn manifest check)", ""
    )
    foreign_load: float = variable(
        "share of all CPUs that others may use; more, for 30 s on end, ends the step", planning.FOREIGN
    )
    allow_reboot: bool = variable("whether a role may reboot the host", False)
    bmc_address: str = variable("address of the host's BMC; empty where there is none", "")
    bmc_user: str = variable("account of the BMC (Redfish, read only is enough); or GPUBURN_BMC_USER", "")
    bmc_password: str = variable("its password, from a vault; or GPUBURN_BMC_PASSWORD; never written anywhere", "")
    bmc_ca: str = variable("file on the controller with the CA of the BMC's certificate", "")
    bmc_fingerprint: str = variable("SHA-256 fingerprint of the BMC's certificate, in place of a CA", "")
    bmc_verify: bool = variable("false: the BMC's certificate is not checked, and the report says so", True)
    placeholder: bool = variable("marks the host that the shipped inventory asks to be replaced", False)


def read(variables: dict[str, Any], where: str) -> tuple[Site, list[tuple[str, dict[str, Any]]]]:
    """A host's variables and its site limits, checked by name and type. Raises Refused with the nearest known name."""
    names = {f"{PREFIX}{one.name}" for one in dataclasses.fields(Site)}
    limits: list[tuple[str, dict[str, Any]]] = []
    plain: dict[str, Any] = {}
    for name, value in sorted(variables.items()):
        if name.startswith(LIMITS):
            if not isinstance(value, dict):
                raise Refused(f"{where}: {name} is {value!r}; wanted is a mapping of probe.metric to a limit")
            limits.append((name, value))
        else:
            known(name, {*names, LIMITS}, where)
            value = _hidden(name, value, where) if name in SECRETS else value
            plain[name.removeprefix(PREFIX)] = _typed(name.removeprefix(PREFIX), value)
    try:
        return strict.build(Site, plain, where), limits
    except Refused as error:
        raise Refused(str(error).replace(f"{where}.", f"{where}: {PREFIX}", 1)) from None


def _hidden(name: str, value: Any, where: str) -> str:
    """That a secret is set, and not what it is: nothing that is built of a site can write it down."""
    if not isinstance(value, str):
        raise Refused(f"{where}: {name} is not text; quote it")
    return GIVEN if value else ""


def _typed(name: str, value: Any) -> Any:
    """`-e gpuburn_wait=false` arrives as text: text for a variable that is none is read as YAML, and then checked."""
    kind = strict.hints(Site)[name]
    if not isinstance(value, str) or kind not in (bool, int, float, list[str]):
        return value
    try:
        return yaml.safe_load(value)
    except yaml.YAMLError:
        return value  # still text, and refused as such by name


def check(site: Site, where: str) -> None:
    """What a host must have before anything runs on it."""
    for name, (least, most) in {
        **COUNTS,
        "grace": GRACE,
        "power_budget_kw": (0.0, 10_000.0),
        "foreign_load": (0.01, 1.0),
        "storage_gib": (1.0, 1_000_000.0),
        "storage_writers": (1, 1000),
    }.items():
        if not least <= getattr(site, name) <= most:
            raise Refused(f"{where}: gpuburn_{name} is {getattr(site, name)}; wanted is {least:g} to {most:g}")
    twice = next((one for one in site.profiles if site.profiles.count(one) > 1), "")
    if twice:
        raise Refused(f"{where}: gpuburn_profiles names {twice!r} twice; wanted is each profile once")
    if not site.profiles:
        raise Refused(f"{where}: gpuburn_profiles is not set; wanted is a list such as [training, inference]")
    if site.kind != "rehearsal" and not site.sku:
        raise Refused(f"{where}: gpuburn_sku is not set; wanted is one of `gpuburn sku list`")
    if site.kind != "rehearsal" and site.gpu_count < 1:
        raise Refused(f"{where}: gpuburn_gpu_count is {site.gpu_count}; wanted is the number of GPUs that were ordered")
    if site.steps and site.kind == "hardware" and site.level in ("standard", "soak"):
        raise Refused(f"{where}: gpuburn_steps at level {site.level}; a part of a plan accepts nothing, use quick")
    if site.power_budget_kw and not site.power_domain:
        raise Refused(f"{where}: gpuburn_power_budget_kw is set; wanted is gpuburn_power_domain too")
    if site.storage and (not PurePosixPath(site.storage).is_absolute() or ".." in PurePosixPath(site.storage).parts):
        raise Refused(
            f"{where}: gpuburn_storage is {site.storage!r}; wanted is an absolute path on the host, such as /mnt/data"
        )
    if site.delivery and not NAME.fullmatch(site.delivery):
        raise Refused(f"{where}: gpuburn_delivery is {site.delivery!r}; {PLAIN}")
    if site.kind == "hardware" and not site.become:
        raise Refused(f"{where}: gpuburn_become is false; hardware is accepted as root only (kernel log, DMI)")


def document() -> list[tuple[str, str, str]]:
    """(variable, default, meaning) of every variable, for the documentation."""
    rows: list[tuple[str, str, Literal[""] | str]] = []
    for one in dataclasses.fields(Site):
        default = one.default if one.default is not dataclasses.MISSING else []
        rows.append((f"{PREFIX}{one.name}", repr(default), one.metadata["doc"]))
    return [*rows, (f"{LIMITS}*", "{}", "limits of the site or the contract: {probe.metric: {min, max, because, ...}}")]

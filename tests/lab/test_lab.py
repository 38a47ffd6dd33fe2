"""The lab itself: hosts that boot, reboot, lose power and network like hosts, and a machine left as it was found."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from .command import CommandFailed, run
from .host import Host
from .lab import Lab, Layer
from .mounts import below
from .process import Process
from .state import PROPAGATE
from .store import discard
from .tree import USER
from .waiting import until

MakeLayer = Callable[[str, Callable[[Host], None], Sequence[Layer]], Layer]
IMPORTED_FROM = Path(__file__).parents[len((__package__ or "").split("."))]
CRASH = """
import os, signal
from {package}.lab import Lab
lab = Lab()
lab.__enter__()
host = lab.host("doomed")
host.boot()
print(lab.folder, host.power.supervisor.pid, host.power.init.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def pair(lab: Lab) -> Iterator[list[Host]]:
    hosts = [lab.host("rack-1"), lab.host("rack-2")]
    lab.boot(*hosts)
    yield hosts
    lab.remove(*hosts)


@pytest.fixture
def host(lab: Lab) -> Iterator[Host]:
    made = lab.host("alone")
    made.boot()
    yield made
    lab.remove(made)


@pytest.fixture
def layer(lab: Lab) -> Iterator[MakeLayer]:
    """Makes layers as lab.layer does, under keys of this test run, and throws them away."""
    made, salt = set(), os.urandom(8).hex()

    def make(key: str, prepare: Callable[[Host], None], layers: Sequence[Layer]) -> Layer:
        layer = lab.layer(f"{key} {salt}", prepare, layers)
        made.add(layer.folder)
        return layer

    yield make
    for folder in made:
        discard(folder)
        folder.with_name(f"{folder.name}.lock").unlink()


def bridges() -> set[str]:
    return {link["ifname"] for link in json.loads(run("ip", "-j", "link").stdout)}


def test_two_hosts_boot_and_are_two(pair: list[Host]) -> None:
    seen = [host.ssh("cat", "/etc/hostname", "/etc/machine-id", "/etc/ssh/ssh_host_ed25519_key.pub") for host in pair]
    lines = [done.stdout.splitlines() for done in seen]
    assert [names[0] for names in lines] == ["rack-1", "rack-2"]
    assert all(one != other for one, other in zip(*lines, strict=True))
    assert pair[0].boot_id != pair[1].boot_id
    assert pair[0].ssh("bash", "-c", f"exec 3<>/dev/tcp/{pair[1].address}/22 && head -c 4 <&3").stdout == "SSH-"


def test_the_boot_comes_to_its_end(pair: list[Host]) -> None:
    for host in pair:
        state = host.ssh("systemctl", "is-system-running", "--wait", check=False).stdout.strip()
        failed = host.ssh("systemctl", "--failed", "--no-legend", check=False).stdout
        assert state == "running", f"{host.name} is {state}: {failed}"


def test_the_ordinary_user_becomes_root(pair: list[Host]) -> None:
    assert pair[0].ssh("id", "-un", user=USER).stdout.strip() == USER
    assert pair[0].ssh("sudo", "-n", "id", "-u", user=USER).stdout.strip() == "0"


def test_arguments_arrive_as_they_are(pair: list[Host]) -> None:
    assert pair[0].ssh("printf", "%s|", "a b", "$HOME", "'", "").stdout == "a b|$HOME|'||"
    with pytest.raises(CommandFailed, match="nothing to see"):
        pair[0].ssh("sh", "-c", "echo nothing to see >&2; exit 3")


def test_a_host_has_what_the_agent_uses(pair: list[Host]) -> None:
    """Both CPUs, shared memory for PyTorch, and services with a user, a cgroup that is theirs and a way to kill it."""
    host = pair[0]
    assert int(host.ssh("nproc").stdout) == len(os.sched_getaffinity(0))
    assert int(host.ssh("df", "--output=size", "-B1", "/dev/shm").stdout.split()[1]) == 2**30
    script = "c=/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup); mkdir $c/step && id -un && cat $c/cgroup.events"
    properties = [f"-p{item}" for item in (f"User={USER}", "Delegate=yes", "OOMPolicy=continue", "NoNewPrivileges=yes")]
    said = host.ssh("systemd-run", "--wait", "--pipe", "-q", *properties, "sh", "-c", script).stdout
    assert said.split() == [USER, "populated", "1", "frozen", "0"]
    host.ssh("systemd-run", "-q", "--unit=sleeper", "sleep", "1000")
    host.write("/sys/fs/cgroup/system.slice/sleeper.service/cgroup.kill", "1")
    assert host.ssh("systemctl", "is-active", "sleeper", check=False).stdout.strip() != "active"


def test_files_go_in_and_out_and_links_stay_inside(pair: list[Host]) -> None:
    host = pair[0]
    host.write("/opt/a/script", "#!/bin/sh\necho $0\n", mode=0o755)
    assert host.ssh("/opt/a/script", user=USER).stdout.strip() == "/opt/a/script"
    host.ssh("ln", "-s", "/run", "/opt/away")
    host.write("/opt/away/../opt/away/lab-was-here", "x")
    assert host.ssh("cat", "/run/lab-was-here").stdout == host.read("/var/run/lab-was-here") == "x"
    assert not Path("/run/lab-was-here").exists()


def test_a_reboot_is_another_boot(host: Host) -> None:
    before = host.boot_id
    host.ssh("touch", "/root/kept", "/run/lost")
    host.reboot()
    assert host.running and host.boot_id != before
    assert host.ssh("ls", "/root/kept", "/run/lost", check=False).stdout.split() == ["/root/kept"]


def test_a_host_that_never_returns(host: Host) -> None:
    host.returns = False
    host.ssh("systemctl", "reboot", check=False)
    with pytest.raises(RuntimeError, match="went off"):
        host.wait()


def test_a_pulled_cable_is_silence_and_plugged_again_it_is_over(host: Host) -> None:
    before = host.boot_id
    host.pull_cable()
    assert host.ssh("true", check=False).returncode == 255
    assert host.running
    host.plug_cable()
    host.wait()
    assert host.boot_id == before


def test_a_pulled_cable_stays_pulled_over_a_reboot(host: Host) -> None:
    before = host.boot_id
    host.ssh("systemd-run", "-q", "--on-active=100ms", "--timer-property=AccuracySec=1ms", "systemctl", "reboot")
    host.pull_cable()
    until(lambda: host.console.read_text(errors="replace").count("Multi-User System") == 2, "the second boot")
    assert host.ssh("true", check=False).returncode == 255
    host.plug_cable()
    host.wait()
    assert host.boot_id != before


def test_power_loss_leaves_it_down_until_power_is_back(host: Host) -> None:
    before = host.boot_id
    host.ssh("sh", "-c", "echo written > /root/kept")
    host.power_loss()
    assert not host.running
    assert host.read("/root/kept") == "written\n"
    assert host.ssh("true", check=False).returncode == 255
    host.power_on()
    assert host.boot_id != before
    journal = host.ssh("journalctl", "--list-boots", "--no-pager", "--quiet").stdout
    assert len(journal.splitlines()) == 2


def test_a_shutdown_is_orderly(host: Host) -> None:
    host.write("/etc/systemd/system/last.service", "[Service]\nExecStart=sleep inf\nExecStop=touch /root/last-words\n")
    host.ssh("systemctl", "start", "last")
    host.shutdown()
    assert not host.running and host.read("/root/last-words") == ""


def test_a_layer_is_prepared_once_and_carries_nobody(lab: Lab, layer: MakeLayer) -> None:
    prepared = []

    def prepare(host: Host) -> None:
        prepared.append(host)
        host.ssh("sh", "-c", "echo baked > /opt/in; rm /etc/issue")

    one, again = layer("one", prepare, ()), layer("one", prepare, ())
    two = layer("two", lambda host: host.write("/opt/two", host.read("/opt/in") + "twice\n"), [one])
    assert len(prepared) == 1 and not prepared[0].running and again == one
    for name in ("etc/machine-id", "etc/hostname", "etc/ssh/ssh_host_ed25519_key", f"home/{USER}/.ssh", "root/.ssh"):
        assert not (one.folder / name).exists(), name
    hosts = [lab.host("from-one", [one]), lab.host("from-two", [two])]
    lab.boot(*hosts)
    assert [host.ssh("hostname").stdout.strip() for host in hosts] == ["from-one", "from-two"]
    assert [host.ssh("ls", "/etc/issue", check=False).returncode for host in hosts] == [2, 2]
    assert hosts[0].read("/opt/in") == "baked\n" and hosts[1].read("/opt/two") == "baked\ntwice\n"
    assert hosts[0].read("/etc/machine-id") != hosts[1].read("/etc/machine-id")
    lab.remove(*hosts)


def test_a_preparation_that_fails_leaves_no_layer(lab: Lab, layer: MakeLayer) -> None:
    def fail(host: Host) -> None:
        host.ssh("false")

    with pytest.raises(CommandFailed):
        layer("same", fail, ())
    made = layer("same", lambda host: host.write("/opt/in", ""), ())
    assert (made.folder / "opt/in").exists() and not any(name.startswith("prepare") for name in lab.hosts)


def test_the_inventory_reaches_hosts_strictly(lab: Lab, pair: list[Host]) -> None:
    path = lab.inventory(pair, {"rack-1": {"rack": 7}}, {"gpuburn_become": True}, group="racks")
    group = yaml.safe_load(path.read_text())["racks"]
    assert group["hosts"]["rack-1"] == {"ansible_host": pair[0].address, "rack": 7}
    assert group["vars"]["gpuburn_become"] is True and "ansible_become" not in group["vars"]
    values = group["vars"]
    common, key = shlex.split(values["ansible_ssh_common_args"]), values["ansible_ssh_private_key_file"]
    client = ["ssh", *common, "-n", "-i", key]
    target = f"{values['ansible_user']}@{pair[1].address}"
    assert run(*client, target, values["ansible_python_interpreter"], "--version").stdout.startswith("Python 3")
    with pytest.raises(ValueError, match="nobody"):
        lab.inventory(pair, {"nobody": {}})


def test_an_impostor_is_not_spoken_to(lab: Lab, host: Host) -> None:
    host.ssh("sh", "-c", "rm /etc/ssh/ssh_host_*; ssh-keygen -q -A; systemctl restart ssh")
    refused = host.ssh("true", check=False)
    assert refused.returncode == 255 and "REMOTE HOST IDENTIFICATION HAS CHANGED" in refused.stderr


@pytest.mark.usefixtures("lab")  # so that it is left out where the others are
def test_nothing_is_left_behind() -> None:
    with Lab() as lab:
        host = lab.host("gone")
        host.boot()
        folder, bridge, machine, cgroups = lab.folder, host.slot.bridge, host.slot.machine, host.slot.cgroups
        supervisor = host.power.supervisor if host.power else None
        init = supervisor.init() if supervisor else None
        assert supervisor and init and bridge in bridges() and below(folder)
    assert not supervisor.alive and not init.alive
    assert not below(folder) and not folder.exists()
    assert not {bridge, f"vb-{machine}"} & bridges()
    assert not any(path.parent.exists() for path in cgroups) and not (PROPAGATE / machine).exists()


@pytest.mark.usefixtures("lab")
def test_what_a_crashed_run_left_is_cleared_by_the_next() -> None:
    script = CRASH.format(package=__package__)
    environment = os.environ | {"PYTHONPATH": str(IMPORTED_FROM)}
    done = run(sys.executable, "-c", script, env=environment, check=False, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr
    name, *pids = done.stdout.split()
    folder = Path(name)
    left = [Process.of(int(pid)) for pid in pids]
    assert all(process and process.alive for process in left) and below(folder)
    with Lab():
        assert not any(process and process.alive for process in left)
    assert not folder.exists() and not below(folder)
    assert f"gpublab{folder.name}" not in bridges()

"""Look at a host without changing it: sent over standard input, runs on any Python 3, prints one JSON object."""

import json
import os
import platform
import pwd
import select
import sys
import time

ANSWER = 20  # seconds that a file system may take to answer; a mount whose server is gone never does


def first_existing(path):
    while not os.path.exists(path):
        path = os.path.dirname(path) or "/"
    return path


def text(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def gpus():
    """PCI addresses of NVIDIA's display and 3D controllers (class 0x03), in PCI order."""
    root = "/sys/bus/pci/devices"
    found = sorted(os.listdir(root)) if os.path.isdir(root) else []
    return [
        address
        for address in found
        if text(f"{root}/{address}/vendor") == "0x10de" and text(f"{root}/{address}/class").startswith("0x03")
    ]


def busy():
    """Processes that hold a GPU's device file open, as "name (pid)"; NVIDIA's own daemons are not work."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            targets = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            continue
        name = text(f"/proc/{pid}/comm")
        if any(t.startswith("/dev/nvidia") and t[11:].isdigit() for t in targets) and not name.startswith("nv"):
            found.append(f"{name} ({pid})")
    return found


def unfinished(state):
    """Run folders that hold a plan and no result."""
    if not os.path.isdir(state):
        return []
    return sorted(
        run
        for run in os.listdir(state)
        if os.path.exists(f"{state}/{run}/plan.json")
        and not os.path.exists(f"{state}/{run}/result.json")
        and os.path.exists(f"{state}/{run}/state.json")
    )


def storage(path, worker):
    """Why the workers' account cannot write to that folder; "" if it can. Nothing is written to find out."""
    if not path:
        return ""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            nowhere = os.open(os.devnull, os.O_RDWR)
            for one in (0, 1, 2):  # whoever reads what is printed waits for the last who could print
                os.dup2(nowhere, one)
            os.write(writing, (unwritable(path, worker) or "well").encode())
        finally:
            os._exit(0)
    os.close(writing)
    answered = select.select([reading], [], [], ANSWER)[0]
    said = os.read(reading, 1000).decode("utf-8", "replace") if answered else ""
    return "" if said == "well" else said or f"it does not answer within {ANSWER} s"


def unwritable(path, worker):
    """Why the account cannot write there: asked of the kernel as that account, in a process that becomes it."""
    who = os.geteuid()
    if who == 0 and worker:
        try:
            account = pwd.getpwnam(worker)
            groups, uid, gid = os.getgrouplist(worker, account.pw_gid), account.pw_uid, account.pw_gid
        except KeyError:  # it is made when the agent is installed: nobody's rights are what it will have
            groups, uid, gid = [], 65534, 65534
        os.setgroups(groups)
        os.setgid(gid)
        os.setuid(uid)
        who = worker
    try:
        os.stat(path)
    except OSError as error:
        return error.strerror
    if not os.path.isdir(path):
        return "it is no folder"
    return "" if os.access(path, os.W_OK | os.X_OK) else f"{who} may not write to it"


def main():
    state, place, worker = (*sys.argv[1:], "", "")[:3]
    disk = os.statvfs(first_existing(state))
    release = dict(line.partition("=")[::2] for line in text("/etc/os-release").splitlines())
    name = f"{release.get('ID', '')} {release.get('VERSION_ID', '')}".replace('"', "").strip()
    look = {
        "python": platform.python_version(),
        "os": name,
        "architecture": platform.machine(),
        "free_disk_gib": round(disk.f_bavail * disk.f_frsize / 2**30, 2),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 2),
        "time": time.time(),
        "uid": os.geteuid(),
        "systemd": os.path.isdir("/run/systemd/system"),
        "gpus": gpus(),
        "busy": busy(),
        "unfinished": unfinished(state),
        "storage": storage(place, worker),
    }
    print(json.dumps(look))


main()

"""Look at a host without changing it: sent over standard input, runs on any Python 3, prints one JSON object."""

import json
import os
import platform
import sys
import time


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


def main():
    state = sys.argv[1]
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
    }
    print(json.dumps(look))


main()

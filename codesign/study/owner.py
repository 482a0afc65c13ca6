"""Who works on a trial: a process that others on the same machine can see living or dead."""

import os
import socket
from functools import lru_cache
from pathlib import Path


def owner_id() -> str:
    """This process as ``host/boot/pid/start``.

    ``boot`` tells machines (and containers with process numbers of their own) apart that share a host name, ``start`` two
    processes that were given the same number one after the other.
    """
    pid = os.getpid()
    return f"{_place()}/{pid}/{_started(pid)}"


def owner_is_dead(owner: str) -> bool:
    """Whether the process is known to be gone; False also where it cannot be seen from here."""
    process, _, started = owner.rpartition("/")
    place, _, pid = process.rpartition("/")
    return place == _place() and pid.isdigit() and _started(int(pid)) != started


def owner_label(owner: str) -> str:
    """The process as people name it: ``host, process 1234``."""
    parts = owner.split("/")
    return f"{parts[0]}, process {parts[-2]}" if len(parts) >= 3 else owner


@lru_cache(maxsize=1)
def _place() -> str:
    return f"{socket.gethostname()}/{_boot()}"


def _boot() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8]
        space = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:  # not Linux: the host name must do
        return "-"
    return f"{boot}-{space}"


def _started(pid: int) -> str:
    """When a process started, in ticks since boot; empty when there is none. Where /proc is missing: ``alive``."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        if Path("/proc/self/stat").exists():
            return ""
        return "alive" if _exists(pid) else ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True

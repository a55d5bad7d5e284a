"""Leftovers of a killed test: its directory, network namespaces, containers' groups. A process of its own
waits for the test's end and clears them away. They have its pid in their names, so nothing else is touched.
"""

import glob
import os
import shutil
import signal
import subprocess
import time


def remove_group(group):
    """A cgroup, with the processes in it and the groups below."""
    try:
        with open(os.path.join(group, "cgroup.kill"), "w") as file:
            file.write("1")
    except OSError:
        return
    for _ in range(500):
        subprocess.run(["find", group, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"],
                       capture_output=True)
        if not os.path.exists(group):
            return
        time.sleep(0.02)


def sweep(pid, directory):
    for root in "/sys/fs/cgroup", "/sys/fs/cgroup/unified":
        for group in glob.glob("%s/redlock-*-%d" % (root, pid)):
            remove_group(group)
    for path in glob.glob("/run/netns/redlock-%d-*" % pid):
        subprocess.run(["ip", "netns", "del", os.path.basename(path)], capture_output=True)
    for _ in range(500):  # a process that is about to end may write once more
        shutil.rmtree(directory, ignore_errors=True)
        if not os.path.exists(directory):
            return
        time.sleep(0.02)


def watch(directory):
    """A pipe that only the test has open ends with the test."""
    pid = os.getpid()
    reading, writing = os.pipe()
    if os.fork() != 0:
        os.close(reading)
        return
    try:
        os.setsid()
        for number in signal.SIGHUP, signal.SIGINT, signal.SIGTERM:
            signal.signal(number, signal.SIG_IGN)
        os.dup2(reading, 0)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.closerange(3, max(reading, writing, null) + 1)
        while os.read(0, 1):
            pass
        os.chdir("/")
        sweep(pid, directory)
    finally:
        os._exit(0)

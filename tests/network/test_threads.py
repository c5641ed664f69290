"""Threads: how many there are follows what this process may use, results follow only the setting, forks are safe."""

import os
import subprocess
import sys

import pytest

TRAINED = """
import hashlib, os, sys
os.sched_setaffinity(0, {int(core) for core in sys.argv[1].split(",")})
import numpy as np
from sparcl import _engine
from sparcl.bench import native_side
from sparcl.bench.workload import Workload

chosen = _engine.threads()
_engine.set_threads(3)
work = Workload(width=8, image_size=16, batch=20)
network = native_side.network(work, 0.5)
step = native_side.training_step(network, work)
for _ in range(3):
    step()
numbers = np.ascontiguousarray(network.parameters.values.flat).tobytes() + network.predict(work.images()).tobytes()
print(chosen, hashlib.sha256(numbers).hexdigest())
"""

FORKED = """
import multiprocessing, os, sys, threading
import numpy as np
from sparcl import _engine
from sparcl.bench import native_side
from sparcl.bench.workload import Workload

_engine.set_threads(2)
work = Workload(width=16, image_size=32, batch=40)
network = native_side.network(work, 0.5)
images = work.images()
expected = network.predict(images)

def same(_):
    return network.predict(images).tobytes() == expected.tobytes()

with multiprocessing.get_context("fork").Pool(2) as pool:
    assert all(pool.map(same, range(4)))

stop = threading.Event()
other = native_side.network(work, 0.5)
def busy():
    while not stop.is_set():
        other.predict(images)
thread = threading.Thread(target=busy)
thread.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        os._exit(0 if same(None) else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
print("done")
"""


def run_script(script: str, *arguments: str) -> list[str]:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout.split()


def test_threads_follow_the_cores_of_this_process_and_results_only_the_setting() -> None:
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        pytest.fail("this test needs two cores")
    one, both = run_script(TRAINED, str(cores[0])), run_script(TRAINED, ",".join(map(str, cores)))
    assert [one[0], both[0]] == ["1", "2"]
    assert one[1] == both[1]


def test_networks_predict_after_a_fork_also_beside_a_thread_that_predicts() -> None:
    assert run_script(FORKED) == ["done"]

"""How long until a worker of the classroom can grade, and how does Python's forkserver compare?

    python -m benchmarks.worker_start [--quick]

``grading.forkserver`` copies the command's process before the process has imported anything heavy.
The copy imports the course, and each worker is a fork of the copy. The forkserver of
``multiprocessing`` is a new Python process that preloads the same modules. Both start as soon as
the command starts. Each run is a new process. The run measures how long it takes until a worker has
the list of exercises, for the first worker and for one more. The workers are plain processes here,
because the sandbox is the same in both cases.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks._common import ROOT, command_line

RUNS, QUICK = 7, 2
FOLDER = ROOT / "build" / "worker_start"
LOADED = "autograd_course.grader.catalogue"
PRELOADED = "worker_modules"
PRELOAD = f"""
import torch.fx.experimental.symbolic_shapes
from {LOADED} import CATALOGUE
dict(CATALOGUE)  # imports every exercise
"""
COMMON = f"""
import json, sys, time
begun = time.perf_counter()
from multiprocessing import Pipe

def ready(end):
    from {LOADED} import CATALOGUE
    dict(CATALOGUE)
    end.send(time.perf_counter())

def started(start):
    here, there = Pipe()
    asked = time.perf_counter()
    process = start(ready, there)
    came = here.recv()
    process.join()
    return asked, came

def told(first, second):
    print(json.dumps([first[1] - begun, second[1] - second[0]]))
"""
OURS = (
    COMMON
    + """
from autograd_classroom.grading.forkserver import ForkServer
with ForkServer() as server:
    told(started(server.start), started(server.start))
"""
)
STANDARD = (
    COMMON
    + f"""
import multiprocessing
if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["{PRELOADED}"])

    def start(target, end):
        process = context.Process(target=target, args=(end,))
        process.start()
        return process

    told(started(start), started(start))
"""
)


def measured(program: str) -> tuple[float, float]:
    """Return the seconds until the first worker and one more are ready, in a new process."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    Path(FOLDER, f"{PRELOADED}.py").write_text(PRELOAD, encoding="utf-8")
    path = FOLDER / "measured.py"
    path.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(FOLDER)},  # the forkserver does not get sys.path
    )
    first, more = json.loads(done.stdout)
    return first, more


def main() -> None:
    runs = QUICK if command_line(__doc__).parse_args().quick else RUNS
    times: dict[str, list[tuple[float, float]]] = {"ours": [], "multiprocessing": []}
    for _ in range(runs):
        times["ours"].append(measured(OURS))
        times["multiprocessing"].append(measured(STANDARD))
    table = Table("forkserver", "first worker, s", "one more, s")
    medians = {
        name: [statistics.median(column) for column in zip(*found, strict=True)]
        for name, found in times.items()
    }
    for name, (first, more) in medians.items():
        table.add_row(name, f"{first:.2f}", f"{more:.3f}")
    ours, theirs = medians["ours"], medians["multiprocessing"]
    table.add_row("ratio", *(f"{b / a:.1f}×" for a, b in zip(ours, theirs, strict=True)))
    Console().print(table)


if __name__ == "__main__":
    main()

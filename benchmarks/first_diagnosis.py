"""How long does the first diagnosis in a process take, compared with the first gradcheck?

    pip install -e '.[third-party]'
    python -m benchmarks.first_diagnosis [--quick]

This is how long you wait if you try `diagnose` on a single Function. The benchmark uses the public
Functions in third_party.py whose packages are installed, each with the small inputs listed there.
Two new single-threaded processes examine each Function. The first runs `diagnose`, and its time
includes the import. The second runs gradcheck in slow mode. Both import torch and the Function's
package beforehand. Between machines, compare only the ratios, not the seconds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from torch.autograd import gradcheck

from benchmarks._common import ROOT, command_line, passes, some

from third_party import ROWS  # isort: skip


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--row", type=int, help="examine this row here, and print the seconds")
    parser.add_argument("--gradcheck", action="store_true", help="examine it with gradcheck")
    asked = parser.parse_args()
    if asked.row is not None:
        print(seconds_here(asked.row, asked.gradcheck))
        return
    from autograd_doctor import RULES
    from third_party import installed

    rows = some([row for row, shipped in enumerate(ROWS) if installed(shipped)], asked.quick)
    with Console().status("") as status:
        times = []
        for row in rows:
            status.update(f"{ROWS[row].package}: {ROWS[row].name}")
            times.append((in_a_fresh_process(row), in_a_fresh_process(row, "--gradcheck")))
    wrong = {name for name, rule in RULES.items() if rule.severity == "error"}
    right = [t for row, t in zip(rows, times, strict=True) if not wrong & {*ROWS[row].verdict}]
    table = Table("Functions", "number", "diagnose, s", "gradcheck, s", "ratio")
    for name, pairs in (("all", times), ("no error", right)):
        table.add_section()
        for what, place in (("median", 0.5), ("95 %", 0.95), ("largest", 1.0)):
            ours, theirs = (quantile(column, place) for column in zip(*pairs, strict=True))
            ratio = quantile([one / other for one, other in pairs], place)
            table.add_row(
                f"{name}, {what}", str(len(pairs)), f"{ours:.2f}", f"{theirs:.2f}", f"{ratio:.1f}"
            )
    Console().print(table)
    slowest = sorted(zip(times, rows, strict=True), reverse=True)[:3]
    names = [f"{ROWS[row].package} {ROWS[row].name} ({t[0]:.1f} s)" for t, row in slowest]
    print("slowest:", ", ".join(names))


def seconds_here(row: int, with_gradcheck: bool) -> float:
    """Run the first examination in this process, on one row, and return the seconds it takes."""
    shipped = ROWS[row]
    subject, inputs = shipped.subject(), shipped.inputs()
    warnings.simplefilter("ignore")
    began = time.perf_counter()
    if with_gradcheck:
        passes(gradcheck, subject, inputs)
    else:
        from autograd_doctor import diagnose

        str(diagnose(subject, inputs, **shipped.options))
    return time.perf_counter() - began


def in_a_fresh_process(row: int, *options: str) -> float:
    """Examine one row in a new process with one thread, and return the seconds it takes."""
    command = [sys.executable, "-m", "benchmarks.first_diagnosis", "--row", str(row), *options]
    child = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(child.stdout.split()[-1])


def quantile(values: Sequence[float], place: float) -> float:
    """Return the quantile of some values at ``place``, which is between 0 and 1."""
    ordered = sorted(values)
    if place == 0.5:
        return statistics.median(ordered)
    return ordered[min(len(ordered) - 1, int(place * len(ordered)))]


if __name__ == "__main__":
    main()

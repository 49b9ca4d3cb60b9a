"""What do gradcheck, diagnose and an expert say about Functions in published packages?

    pip install -e '.[third-party]'
    python -m benchmarks.false_errors [--quick]

The benchmark prints one row for each Function of third_party.py whose package is installed. The row
shows the package's version, whether gradcheck passes, the findings of diagnose, and an expert's
findings with their reasons.
"""

from __future__ import annotations

import sys
import time
from importlib.metadata import version

from rich.console import Console
from rich.table import Table
from torch.autograd import gradcheck

from benchmarks._common import command_line, passes, some

from third_party import ROWS, installed, told, verdict  # isort: skip


def main() -> None:
    table = Table("package", "version", "Function", "gradcheck", "diagnose", "expert", "why", "s")
    false = 0
    quick = command_line(__doc__).parse_args().quick
    for shipped in some(list(filter(installed, ROWS)), quick):
        start = time.perf_counter()
        found = told(verdict(shipped), shipped.verdict)
        seconds = time.perf_counter() - start
        checked = passes(gradcheck, shipped.subject(), shipped.inputs())
        false += found != shipped.verdict
        table.add_row(
            shipped.package,
            version(shipped.package),
            shipped.name,
            "passes" if checked else "fails",
            ", ".join(found) or "nothing",
            "the same" if found == shipped.verdict else ", ".join(shipped.verdict) or "nothing",
            shipped.why,
            f"{seconds:.1f}",
        )
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(table)
    console.print(f"{table.row_count} Functions; diagnose and expert differ in {false}.")


if __name__ == "__main__":
    main()

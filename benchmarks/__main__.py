"""Run every benchmark in turn: ``python -m benchmarks [--quick]``."""

from __future__ import annotations

import subprocess
import sys
import time
from argparse import ArgumentParser
from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))


def main() -> None:
    parser = ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only a small part of each")
    options = ["--quick"] if parser.parse_args().quick else []
    begun, failed = time.monotonic(), []
    for name in NAMES:
        print(f"\n=== {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}", *options]
        if subprocess.run(command, cwd=FOLDER.parent).returncode:
            failed.append(name)
    print(f"\n{len(NAMES)} benchmarks in {time.monotonic() - begun:.0f} s")
    if failed:
        sys.exit(f"These failed: {', '.join(failed)}.")


if __name__ == "__main__":
    main()

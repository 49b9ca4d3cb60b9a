"""Entry point for ``run_autograder``: ``python -m autograd_classroom.adapters.gradescope``."""

import json
import sys
from pathlib import Path

from autograd_classroom.adapters.gradescope.running import results_of


def main() -> None:
    """Grade the files in ``submission/`` and write ``results/results.json``."""
    root = Path(sys.argv[1])
    asked = (root / "source" / "exercises.txt").read_text(encoding="utf-8")
    results, told = results_of(root / "submission", asked)
    print(told)  # Gradescope shows standard output only to instructors
    target = root / "results" / "results.json"
    content = json.dumps(results, ensure_ascii=False, indent=1)
    try:
        target.parent.mkdir(exist_ok=True)
        target.write_text(content, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        sys.exit(f"{target} cannot be written by the user that grades ({error.strerror}).")


main()

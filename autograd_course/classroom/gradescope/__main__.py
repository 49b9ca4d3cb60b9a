"""``python -m autograd_course.classroom.gradescope /autograder``: what run_autograder runs."""

import json
import sys
from pathlib import Path

from autograd_course.classroom.gradescope.running import graded
from autograd_course.classroom.grading.crew import RefusedError


def main() -> None:
    """Grade what lies in ``submission/`` and write ``results/results.json``."""
    root = Path(sys.argv[1])
    asked = (root / "source" / "exercises.txt").read_text(encoding="utf-8")
    try:
        results, told = graded(root / "submission", asked)
    except RefusedError as error:
        sys.exit(f"nothing was graded: {error}")
    print(told)  # Gradescope shows standard output to instructors only
    target = root / "results" / "results.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(results, ensure_ascii=False, indent=1), encoding="utf-8")


main()

"""What README.md promises is run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", README, re.DOTALL)
LINKS = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)


@pytest.mark.parametrize(("code", "shown"), EXAMPLES)
def test_an_example_prints_what_stands_below_it(code: str, shown: str, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(code, encoding="utf-8")

    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)

    assert ran.stdout == shown


def test_the_example_passes_gradcheck_as_the_text_says() -> None:
    code = EXAMPLES[0][0].replace("print(", "(")
    scope: dict[str, object] = {}
    source = ROOT / "README.md"
    exec(compile(code, str(source), "exec"), scope)
    import torch

    x = torch.linspace(-2, 2, 5, dtype=torch.float64, requires_grad=True)

    assert torch.autograd.gradcheck(scope["Softplus"].apply, (x, 1.0))  # type: ignore[attr-defined]


@pytest.mark.parametrize("link", LINKS)
def test_a_link_leads_to_a_file(link: str) -> None:
    assert (ROOT / link).exists()


@pytest.mark.parametrize("target", re.findall(r"^make (\w+)", README, re.MULTILINE))
def test_a_command_is_a_target_of_the_makefile(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)

"""The workflows, hooks and forms call only things that exist, with minimal permissions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from pages import PAGES
from repository import ROOT

pytestmark = pytest.mark.checkout

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = {
    path.stem: yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)
    for path in sorted(FOLDER.glob("*.yml"))
}
WRITES = {"book": {"pages", "id-token"}, "release": {"id-token"}}


def _steps() -> Iterator[Any]:
    for name, workflow in WORKFLOWS.items():
        for job, told in workflow["jobs"].items():
            for number, step in enumerate(told["steps"]):
                yield pytest.param(step, id=f"{name}-{job}-{number}")


STEPS = list(_steps())


@pytest.mark.parametrize("step", STEPS)
def test_a_step_calls_one_target_of_the_makefile_or_a_pinned_action(step: dict[str, Any]) -> None:
    if "uses" in step:
        assert re.fullmatch(r"(actions|pypa)/[\w-]+@v\d+(\.\d+\.\d+)?", step["uses"])
        return
    called = re.fullmatch(r'make (?:--silent )?([a-z]+)(?: >> "\$GITHUB_OUTPUT")?', step["run"])
    assert called
    assert re.search(rf"^{called[1]}:", MAKEFILE, re.MULTILINE)


@pytest.mark.parametrize("step", STEPS)
def test_a_checkout_keeps_no_token_and_a_cache_has_the_pins_as_its_key(
    step: dict[str, Any],
) -> None:
    options = step.get("with", {})
    if "actions/checkout" in step.get("uses", ""):
        assert options["persist-credentials"] == "false"
    if "cache" in options:
        assert options["cache-dependency-path"] == "constraints.txt"


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_may_only_read_and_runs_once_at_a_time(name: str) -> None:
    workflow = WORKFLOWS[name]
    granted = [job.get("permissions", {}) for job in workflow["jobs"].values()]

    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["group"]
    assert {right for job in granted for right in job} == WRITES.get(name, set())
    assert "secrets." not in str(workflow)


def test_an_action_has_one_version_in_the_workflows_and_on_the_pages() -> None:
    used = {step["uses"] for each in STEPS for step in each.values if "uses" in step}

    used |= {action for page in PAGES for action in re.findall(r"uses: (\S+)", page.read_text())}
    assert len(used) == len({action.partition("@")[0] for action in used})


def test_the_gpu_is_off_without_a_runner_and_closed_to_pull_requests() -> None:
    (job,) = WORKFLOWS["gpu"]["jobs"].values()

    assert job["if"] == "vars.GPU_RUNNER != ''"
    assert job["runs-on"] == ["self-hosted", "${{ vars.GPU_RUNNER }}"]
    assert WORKFLOWS["gpu"]["on"].keys() == {"push", "workflow_dispatch"}


def test_a_release_is_built_once_and_published_by_trusted_publishing() -> None:
    build, publish = WORKFLOWS["release"]["jobs"].values()
    (named,) = WORKFLOWS["release"]["on"].values()

    assert named == {"tags": ["v*"]}
    assert [step["run"] for step in build["steps"] if "run" in step] == [
        "make system",
        "make release",
    ]
    assert publish["strategy"]["matrix"]["distribution"] == [
        "autograd-doctor",
        "autograd-course",
        "autograd-classroom",
    ]
    assert publish["environment"] == "${{ matrix.distribution }}"
    assert publish["steps"][-1]["with"] == {"packages-dir": "dist/${{ matrix.distribution }}"}


def test_the_hooks_are_the_parts_of_make_check() -> None:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    (checks,) = re.findall(r"^CHECKS := (.*)$", MAKEFILE, re.MULTILINE)

    assert {hook["entry"] for hook in local["hooks"]} == {f"make {it}" for it in checks.split()}
    assert {hook["language"] for hook in local["hooks"]} == {"system"}


@pytest.mark.parametrize(
    ("form", "asked"),
    [
        ("false_alarm", {"code", "report", "reason", "versions"}),
        ("missing_diagnosis", {"code", "report", "mistake", "versions"}),
        ("lesson", {"place", "problem"}),
        ("classroom", {"command", "expected", "platform", "installation"}),
    ],
)
def test_a_form_requires_what_an_answer_needs(form: str, asked: set[str]) -> None:
    path = ROOT / ".github" / "ISSUE_TEMPLATE" / f"{form}.yml"
    fields = yaml.safe_load(path.read_text(encoding="utf-8"))["body"]

    assert {f["id"] for f in fields if f.get("validations", {}).get("required")} == asked

"""Every cell of the table in docs/what_survives.md is tested, and so are the remarks below it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import surviving
import torch
from repository import ROOT
from sampling import first_rows
from surviving import WithMask
from torch import Tensor

from autograd_course.ship import quiet

pytestmark = [pytest.mark.slow, pytest.mark.checkout]  # only for the pinned PyTorch

PAGE = (ROOT / "docs" / "what_survives.md").read_text(encoding="utf-8")
LINES = PAGE.splitlines()


@pytest.fixture(autouse=True, scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("group")
        with surviving.one_process(folder, patch):
            yield


@pytest.mark.parametrize("name", first_rows(surviving.ROWS))
def test_a_row_of_the_table_is_what_its_function_does(name: str) -> None:
    row = surviving.row(name)

    assert row in LINES, f"the page must say: {row}"


def test_the_table_has_these_rows_and_columns_and_names_the_version() -> None:
    start = LINES.index(f"| Function | {' | '.join(surviving.TOOLS)} |")
    rows = LINES[start + 2 : LINES.index("", start)]

    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [*surviving.ROWS]
    assert f"PyTorch {'.'.join(torch.__version__.split('.')[:2])}." in PAGE


@pytest.mark.parametrize("what", first_rows(surviving.CODE))
def test_code_in_forward_does_under_compile_what_its_row_says(what: str) -> None:
    row = next(line for line in LINES if line.startswith(f"| {what} |"))

    whole = surviving.compiled_with(surviving.CODE[what], whole=True)
    assert row.split(" | ")[2] == whole
    assert surviving.compiled_with(surviving.CODE[what], whole=False) == "works"


@pytest.mark.parametrize("code", surviving.INSTEAD.values(), ids=surviving.INSTEAD)
def test_what_the_page_recommends_instead_compiles_into_one_graph(code: Any) -> None:
    assert surviving.compiled_with(code, whole=True) == "works"


def test_the_table_of_code_has_these_rows() -> None:
    start = next(k for k, line in enumerate(LINES) if line.startswith("| In `forward` |"))
    rows = LINES[start + 2 : LINES.index("", start)]

    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [*surviving.CODE]


def test_compile_supports_no_second_derivative_without_a_function_either() -> None:
    row = surviving.Row(torch.matmul, twice=True)

    assert row.cell("`torch.compile`") == surviving.ROWS["second derivative"].cell(
        "`torch.compile`"
    )


def test_the_result_of_an_in_place_call_breaks_the_graph() -> None:
    class Exp(surviving.InPlace):
        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return x.exp_()

    torch._dynamo.reset()
    compiled = torch.compile(lambda x: Exp.apply(2 * x), backend="aot_eager", fullgraph=True)
    with (
        quiet(),
        pytest.raises(torch._dynamo.exc.Unsupported, match="mark_dirty input not returned"),
    ):
        compiled(torch.ones(3, requires_grad=True))


def test_once_differentiable_refuses_a_second_derivative() -> None:
    x, weight = torch.ones(2, 3, requires_grad=True), torch.ones(3, 3)
    (slope,) = torch.autograd.grad(
        surviving.Once.apply(x, weight).square().sum(), x, create_graph=True
    )

    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        slope.sum().backward()


def test_an_output_without_a_gradient_has_one_after_export() -> None:
    model = surviving.Model(WithMask.apply)
    x = surviving.X.clone().requires_grad_()

    assert [output.requires_grad for output in model(x)] == [True, False]
    assert [output.requires_grad for output in surviving.exported(model)(x)] == [True, True]


def test_a_vmap_rule_works_in_eager_mode() -> None:
    x, weight = surviving.X, torch.eye(3)

    assert torch.equal(surviving.mapped(surviving.Batched.apply)(x, weight), x)


def test_a_compiled_model_goes_into_ddp_and_not_the_other_way_round() -> None:
    model = torch.nn.Linear(3, 3)
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    torch._dynamo.reset()

    with quiet(), pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(wrapped, backend="aot_eager", fullgraph=True)(surviving.X)

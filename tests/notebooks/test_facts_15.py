"""Facts about PyTorch in lesson 15. If a release changes a fact, its test fails."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest
import torch
from autograd_doctor.memory import stored_bytes
from packaging.version import Version
from torch import Tensor, nn
from torch.autograd import Function, grad

from autograd_course.functions import FakeQuantize, RoundSTE
from autograd_course.ship import check_onnx, missing, quiet, run_onnx

pytestmark = pytest.mark.slow

needs_ship = pytest.mark.skipif(bool(missing()), reason="the extra ship is not installed")


class Wrapped(nn.Module):
    """A module that calls any function."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *inputs: Any) -> Any:
        return self.fn(*inputs)


def exported(fn: Callable[..., Any], *inputs: Tensor, **options: Any) -> Any:
    with quiet(), redirect_stderr(io.StringIO()):  # if export fails, it prints how far it got
        return torch.export.export(Wrapped(fn), inputs, **options)


def loaded(program: Any, path: Path) -> Any:
    with quiet():
        torch.export.save(program, path)
        return torch.export.load(path).module()


def names(program: Any) -> list[str]:
    return [str(n.target).split(".")[1] for n in program.graph.nodes if n.op == "call_function"]


# What export preserves of a Function


@pytest.mark.parametrize("strict", [False, True])
def test_export_drops_the_backward_of_a_function_in_silence(strict: bool) -> None:
    x = torch.tensor([0.7], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = exported(lambda x: RoundSTE.apply(x) * 3, x.detach(), strict=strict).module()

    assert module(x) == 3
    assert grad(module(x), x)[0] == 0  # 3 in eager


@pytest.mark.parametrize("strict", [False, True])
def test_export_drops_a_hook_on_a_tensor_in_silence(strict: bool) -> None:
    x = torch.tensor([0.7], requires_grad=True)

    def hooked(x: Tensor) -> Tensor:
        y = 3 * x
        y.register_hook(torch.neg)
        return y

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = exported(hooked, x, strict=strict)

    assert grad(hooked(x), x)[0] == -3
    if strict and torch.__version__.startswith("2.11."):  # the hook is under no_grad
        with pytest.raises(RuntimeError, match="does not have a grad_fn"):
            grad(program.module()(x), x)
    else:
        assert names(program) == ["mul"]
        assert grad(program.module()(x), x)[0] == 3


@pytest.mark.parametrize("strict", [False, True])
def test_a_hook_on_a_parameter_fires_until_the_program_is_saved(
    strict: bool, tmp_path: Path
) -> None:
    net, x = nn.Linear(1, 1), torch.ones(1, 1)
    net.weight.register_hook(torch.neg)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with quiet():
            program = torch.export.export(net, (x,), strict=strict)
    module, shipped = program.module(), loaded(program, tmp_path / "p.pt2")

    assert module.weight is net.weight
    assert grad(module(x), module.weight)[0] == -1
    assert grad(shipped(x), shipped.weight)[0] == 1


def test_an_exported_learned_step_gets_the_level_for_its_gradient() -> None:
    x, step = torch.tensor([0.7]), torch.tensor(0.5, requires_grad=True)

    def quantize(x: Tensor, step: Tensor) -> Tensor:
        return FakeQuantize.apply(x, step, -2, 2)  # type: ignore[no-any-return]

    module = exported(quantize, x, step.detach()).module()
    assert grad(module(x, step), step)[0] == 1  # n, where eager has n - x / step
    torch.testing.assert_close(grad(quantize(x, step), step)[0], torch.tensor(1 - 1.4))


class Norm(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        r = x.square().sum(-1, keepdim=True).sqrt()
        ctx.save_for_backward(x, r)
        return r

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        x, r = ctx.saved_tensors
        return g * x / r.clamp(min=1e-12)


def test_a_declared_gradient_at_a_kink_becomes_nan() -> None:
    x = torch.zeros(1, 2, requires_grad=True)
    module = exported(Norm.apply, x.detach()).module()

    assert not grad(Norm.apply(x).sum(), x)[0].any()
    assert grad(module(x).sum(), x)[0].isnan().all()


def test_a_surrogate_by_detach_survives_saving_and_loading(tmp_path: Path) -> None:
    x = torch.tensor([0.7], requires_grad=True)
    program = exported(lambda x: (x.round() - x).detach() + x, x.detach())

    assert names(program) == ["round", "sub", "detach", "add"]
    assert grad(loaded(program, tmp_path / "p.pt2")(x), x)[0] == 1


@torch.library.custom_op("course_facts::nearest", mutates_args=())
def nearest(x: Tensor) -> Tensor:
    return torch.from_numpy(x.detach().numpy().round())


nearest.register_fake(torch.empty_like)
nearest.register_autograd(lambda ctx, g: g)


def test_a_custom_operator_is_one_node_and_keeps_its_gradient(tmp_path: Path) -> None:
    x = torch.tensor([0.7], requires_grad=True)
    program = exported(nearest, x.detach())

    assert [str(n.target) for n in program.graph.nodes][1] == "course_facts.nearest.default"
    module = loaded(program, tmp_path / "p.pt2")
    assert (module(x).item(), grad(module(x), x)[0].item()) == (1, 1)


def test_a_process_without_the_registration_cannot_load_a_custom_operator(tmp_path: Path) -> None:
    path = tmp_path / "p.pt2"
    loaded(exported(nearest, torch.tensor([0.7])), path)
    code = f"import torch; torch.export.load({str(path)!r})"
    elsewhere = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert elsewhere.returncode == 1
    assert "failed to resolve torch.ops.course_facts.nearest" in elsewhere.stderr


# What export refuses


def branching(x: Tensor) -> Tensor:
    if x.max() > 1:
        x = x / 255
    return RoundSTE.apply(x)  # type: ignore[no-any-return]


class ByNumPy(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.from_numpy(x.detach().numpy().round())


@pytest.mark.parametrize(
    ("fn", "says"),
    [(branching, "data-dependent expression"), (ByNumPy.apply, r"\.numpy\(\) is not supported")],
)
def test_export_refuses_to_look_at_a_number(fn: Callable[..., Any], says: str) -> None:
    with pytest.raises(RuntimeError, match=says):
        exported(fn, torch.rand(3))


def test_an_example_promises_its_shape() -> None:
    module = exported(torch.round, torch.rand(8, 2)).module()

    with pytest.raises(AssertionError, match="Guard failed"):
        module(torch.rand(9, 2))


# TorchScript


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_a_trace_freezes_a_branch_and_a_script_keeps_it_and_neither_can_be_saved(
    tmp_path: Path,
) -> None:
    class Module(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if x.max() > 1:
                x = x / 255
            return RoundSTE.apply(x)  # type: ignore[no-any-return]

    with pytest.warns(torch.jit.TracerWarning, match="Python boolean"):
        traced = torch.jit.trace(Module(), torch.rand(3))
    if Version(torch.__version__) >= Version("2.14"):  # apply is written in C
        refused = "is currently not supported in|cannot be used in a type expression"
        with pytest.raises(RuntimeError, match=refused):
            torch.jit.script(Module())
        return
    scripted = torch.jit.script(Module())
    bright = torch.tensor([200.0])

    assert (traced(bright).item(), scripted(bright).item()) == (200, 1)
    for module in (traced, scripted):
        with pytest.raises(RuntimeError, match="Could not export Python function call 'RoundSTE'"):
            module.save(str(tmp_path / "m.pt"))


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_torch_jit_says_that_it_is_deprecated() -> None:
    kinds = (DeprecationWarning, FutureWarning)  # the latter from PyTorch 2.14 on
    with pytest.warns(kinds, match="torch.jit.trace` is deprecated"):
        torch.jit.trace(nn.Identity(), torch.rand(1))


# ONNX


@needs_ship
def test_an_operator_without_a_translation_is_refused_by_name() -> None:
    program = exported(nearest, torch.rand(2))

    with quiet(), pytest.raises(Exception, match=r"No ONNX function found .*course_facts.nearest"):
        torch.onnx.export(program, dynamo=True, verbose=False)


@needs_ship
def test_the_checker_accepts_an_unknown_domain_and_the_runtime_does_not() -> None:
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph(
        [helper.make_node("Levels", ["x"], ["y"], domain="course")], "g", [x], [y]
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("course", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)

    assert check_onnx(model) is model
    with pytest.raises(Exception, match="not a registered function/op"):
        run_onnx(model, torch.ones(2))


# Quantization


@needs_ship
def test_four_bits_take_a_byte_and_double_is_refused() -> None:
    with quiet():
        from torchao.quantization import IntxWeightOnlyConfig, quantize_
    config = IntxWeightOnlyConfig(weight_dtype=torch.int4)
    layer = nn.Linear(64, 64, bias=False)
    quantize_(layer, config)

    assert stored_bytes(layer) >= 64 * 64
    with pytest.raises(AssertionError, match=r"Unsupported input dtype: torch.float64"):
        quantize_(nn.Linear(64, 64).double(), config)


@needs_ship
@pytest.mark.parametrize(
    ("spelling", "learns"),
    [(RoundSTE.apply, False), (lambda x: (x.round() - x).detach() + x, True)],
    ids=["a Function", "detach"],
)
def test_pt2e_trains_below_a_surrogate_only_if_it_is_in_the_graph(
    spelling: Callable[[Tensor], Tensor], learns: bool
) -> None:
    with quiet():
        from torchao.quantization.pt2e.quantize_pt2e import prepare_qat_pt2e
        from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), Wrapped(spelling), nn.Linear(4, 2))
    config = x86.get_default_x86_inductor_quantization_config(is_qat=True)
    with quiet():
        program = torch.export.export(net, (torch.rand(3, 4),)).module()
        net = prepare_qat_pt2e(program, x86.X86InductorQuantizer().set_global(config))
    net(9 * torch.rand(3, 4)).sum().backward()  # not everything that is rounded becomes 0

    assert net.get_parameter("2.weight").grad.any()
    assert bool(net.get_parameter("0.weight").grad.any()) is learns


@needs_ship
def test_pt2e_quantizes_a_linear_layer_but_in_pytorch_2_11() -> None:
    with quiet():
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

        config = x86.get_default_x86_inductor_quantization_config()
        program = torch.export.export(nn.Linear(4, 2).eval(), (torch.rand(3, 4),)).module()
        net = prepare_pt2e(program, x86.X86InductorQuantizer().set_global(config))
        net(torch.rand(3, 4))
        called = [str(node.target) for node in convert_pt2e(net).graph.nodes]

    quantized = any("quantize_per_tensor" in name for name in called)
    assert quantized is not torch.__version__.startswith("2.11.")


# Without Python


@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="no C++ compiler")
@pytest.mark.thorough
def test_a_function_is_compiled_ahead_of_time_as_its_forward(tmp_path: Path) -> None:
    x = torch.linspace(-2, 2, 9)
    cheaply = {"aot_inductor.compile_wrapper_opt_level": "O0"}
    with warnings.catch_warnings(), torch._inductor.config.patch(cheaply):
        warnings.simplefilter("ignore")  # the compiler's warnings about its own code change often
        package = torch._inductor.aoti_compile_and_package(
            exported(lambda x: RoundSTE.apply(x) * 2, x), package_path=str(tmp_path / "p.pt2")
        )
        compiled = torch._inductor.aoti_load_package(package)

    torch.testing.assert_close(compiled(x), 2 * x.round())

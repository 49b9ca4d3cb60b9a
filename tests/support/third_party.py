"""A table of Functions that other people publish, and what diagnose must say about each of them.

A verdict names the errors and warnings, starting with the root cause. An empty verdict means that
an expert finds nothing to repair. Every finding was checked by hand, and ``why`` gives the reason.
If a package does something on purpose, ``options`` declares it, as a user would.

A package is imported only when its row is resolved. The ``third-party`` group is installed in CI.
The packages in ``BY_HAND`` have many dependencies that are not needed here, so install them with
``pip install --no-deps``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograd_course import Diagnosis, diagnose

Inputs = Callable[[], tuple[Any, ...]]
Call = Callable[..., Any]


@dataclass(frozen=True)
class Shipped:
    package: str
    path: str  # "module:Function"
    inputs: Inputs
    verdict: tuple[str, ...] = ()
    why: str = ""
    what: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    through: Call | None = None  # a callable built on the Function, if users call it instead

    @property
    def name(self) -> str:
        return " ".join(filter(None, (self.path.partition(":")[2], self.what)))

    def subject(self) -> Any:
        """Import the Function. Return it, or the callable that is built on it."""
        function = resolve_name(self.path)
        return self.through or function


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def uniform(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def covariance(n: int, seed: int = 0) -> Tensor:
    a = draw(n, n, seed=seed)
    return a @ a.mT + n * torch.eye(n, dtype=torch.float64)


def tree(matrix: Tensor) -> Any:
    """Return the object that linear_operator's Functions rebuild their matrix from."""
    return resolve_name("linear_operator.operators:DenseLinearOperator")(
        matrix
    ).representation_tree()


# --- Callables built on Functions ---------------------------------------------------------------


def bisection(y: Tensor, w: Tensor) -> Any:
    solve = resolve_name("zuko.utils:bisection")
    return solve(lambda x: w * x**3 + x, y, -10.0, 10.0, n=60, phi=(w,))


def integral(a: Tensor, b: Tensor, w: Tensor) -> Any:
    quadrature = resolve_name("zuko.utils:gauss_legendre")
    return quadrature(lambda x: torch.exp(-w * x**2), a, b, n=12, phi=(w,))


def zuko_flow(x: Tensor, end: Tensor, a: Tensor) -> Any:
    solve = resolve_name("zuko.utils:odeint")
    field = lambda t, x: torch.tanh(x @ a) * (1 + t)  # noqa: E731
    return solve(field, x, 0.0, end, phi=(a,))


def adjoint_flow(y: Tensor, a: Tensor) -> Any:
    solve = resolve_name("torchdiffeq:odeint_adjoint")
    options = {"method": "rk4", "options": {"step_size": 0.02}, "adjoint_params": (a,)}
    return solve(lambda _, y: torch.tanh(y @ a), y, torch.tensor([0.0, 0.2]).double(), **options)


def null_space(x: Tensor) -> Tensor:
    """Return the projector, because the basis itself is arbitrary within the subspace."""
    basis = resolve_name("kornia.geometry.epipolar.essential:_NullSpaceBasis").apply(x)[0]
    return basis @ basis.mT


def nufft(image: Tensor) -> Any:
    interpolate = resolve_name("torchkbnufft:KbInterp")
    where = 6 * uniform(2, 5) - 3
    return interpolate((3, 3), (6, 6), dtype=torch.complex128)(image, where)


def largest_eigenvalue(w: Tensor) -> Tensor:
    eigenvalues, _ = torch.lobpcg(w @ w.mT + 4 * torch.eye(4, dtype=w.dtype), k=1)
    return eigenvalues


class Tanh(torch.nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(draw(3, 3, seed=seed))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.weight)


def reversible(x: Tensor) -> Any:
    revtorch = resolve_name("revtorch")
    blocks = torch.nn.ModuleList([revtorch.ReversibleBlock(Tanh(1), Tanh(2))])
    return revtorch.ReversibleSequence(blocks)(x)


def coupling(name: str) -> Call:
    def call(x: Tensor) -> Any:
        f, g = Tanh(1), Tanh(2)
        block = resolve_name(f"memcnn.models.additive:{name}")
        return block.apply(x, f, g, *f.parameters(), *g.parameters())

    return call


def checkpointed(x: Tensor, w: Tensor) -> Any:
    run = resolve_name("torch.utils.checkpoint:checkpoint")
    return run(lambda x, w: torch.tanh(x @ w), x, w, use_reentrant=True)


def squared_distance(a: Tensor, b: Tensor) -> Tensor:
    return (a[:, None] - b[None]).square().sum(-1)


def distance(a: Tensor, b: Tensor) -> Tensor:
    return squared_distance(a, b).sqrt()


def lengthscale() -> Tensor:
    return torch.tensor([[0.7]], dtype=torch.float64, requires_grad=True)


def rotations(*shape: int, seed: int = 0) -> Tensor:
    return F.normalize(draw(*shape, 4, seed=seed), dim=-1)


def permutation() -> tuple[Tensor, Tensor]:
    order = draw(3, 5).argsort(1)
    return order, order.argsort(1)


def response_norm(x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75) -> Tensor:
    return F.local_response_norm(x, size, alpha, beta, 1.0)


def primitive(name: str) -> Call:
    """Return the function whose derivative a spikingjelly surrogate claims to be."""
    return lambda x, *args: resolve_name(
        f"spikingjelly.activation_based.surrogate:{name}"
    ).primitive_function(x.clone(), *args)


# --- The packages of the third-party group ------------------------------------------------------

_ENTMAX = "entmax.root_finding:"
_INTERPOL = "interpol.autograd:"
_LINEAR = "linear_operator.functions."
_FLASH = "memory_efficient_attention_pytorch.flash_attention:FlashAttentionFunction"
_QKV = (draw(1, 2, 6, 4), draw(1, 2, 6, 4, seed=1), draw(1, 2, 6, 4, seed=2))
_GRID = 0.3 + 3 * uniform(1, 3, 3, 2, seed=3)
_ON_CTX = "a tensor kept on ctx: changed in place after forward, it changes the gradient unnoticed"
_DETACHED = "backward uses what forward computed on the way; gradgradcheck fails"
_ZUKO = ("frozen-input", "once-differentiable-leak")
_FROZEN = "a parameter in phi that is frozen makes its torch.autograd.grad raise"
_ALL = "every gradient is computed, also where needs_input_grad says no"
_SAVED_INPUT = "the matrix is saved, and the operator on ctx is used instead"
_NATURAL = "the natural gradient, for an optimizer that wants it"
_TANGENT = "the gradient lies in the tangent space of the group, not in the coordinates"

# fmt: off
GROUP = [
    Shipped("entmax", "entmax.activations:SparsemaxFunction", lambda: (draw(3, 5), -1)),
    Shipped("entmax", "entmax.activations:SparsemaxFunction", lambda: (draw(2, 3, 6), 1, 2),
            what="partial sort"),
    Shipped("entmax", "entmax.activations:Entmax15Function", lambda: (draw(2, 3, 4), 1)),
    Shipped("entmax", _ENTMAX + "EntmaxBisectFunction",
            lambda: (draw(3, 5), torch.full((3, 1), 1.7)),
            ("tensor-on-ctx", "wasted-gradient"), f"{_ON_CTX}; {_ALL}", "alpha by row"),
    Shipped("entmax", _ENTMAX + "EntmaxBisectFunction",
            lambda: (draw(3, 5), torch.tensor(1.7)),
            ("tensor-on-ctx", "unreduced-broadcast", "wasted-gradient"),
            f"{_ON_CTX}; {_ALL}; alpha's gradient is left expanded", "one alpha"),
    Shipped("entmax", _ENTMAX + "NormmaxBisectFunction", lambda: (draw(3, 5), 2),
            ("tensor-on-ctx",), _ON_CTX),
    Shipped("entmax", _ENTMAX + "BudgetBisectFunction", lambda: (draw(3, 5), 2),
            ("tensor-on-ctx",), _ON_CTX),
    Shipped("entmax", "entmax.losses:SparsemaxLossFunction",
            lambda: (draw(3, 5), torch.tensor([0, 3, 2])), ("silent-double-backward",), _DETACHED),
    Shipped("entmax", "entmax.losses:Entmax15LossFunction",
            lambda: (draw(3, 5), torch.tensor([0, 3, 2])), ("silent-double-backward",), _DETACHED),
    Shipped("zuko", "zuko.utils:Bisection",
            lambda: (draw(4), 0.5 + draw(4, seed=1).abs()), _ZUKO, _FROZEN,
            through=bisection),
    Shipped("zuko", "zuko.utils:GaussLegendre",
            lambda: (draw(3), draw(3, seed=1), draw(3, seed=2).abs()), _ZUKO, _FROZEN,
            through=integral),
    Shipped("zuko", "zuko.utils:AdaptiveCheckpointAdjoint",
            lambda: (draw(1, 2), torch.tensor(0.1), draw(2, 2, seed=1)),
            ("frozen-input", "tensor-on-ctx"), f"{_FROZEN}; {_ON_CTX} (the output, in ctx.steps)",
            through=zuko_flow),
    Shipped("efficientnet-pytorch", "efficientnet_pytorch.utils:SwishImplementation",
            lambda: (draw(3, 4),)),
    Shipped("pytorch-revgrad", "pytorch_revgrad.functional:RevGrad",
            lambda: (draw(3, 4), torch.tensor(1.0)), ("returns-view", "oversaved"),
            "forward returns its input, and saves it though backward does not use it",
            options={"intentional": ("constant-factor", "flipped-sign")}),
    Shipped("roma", "roma.mappings:_ProcrustesManualDerivatives",
            lambda: (draw(2, 3, 3), True, 0.0), ("silent-double-backward",),
            "U, S and V are saved as constants: gradgradcheck fails"),
    Shipped("roma", "roma.mappings:_HornEigenvectorManualDerivatives",
            lambda: (draw(2, 3, 3), 0.0)),
    Shipped("roma", "roma.mappings:_ProcrustesRegularization",
            lambda: (draw(2, 3, 3), draw(2, 3, 3, seed=1), 0.1), ("returns-view",),
            "forward returns a view, on purpose; the added term, too, is meant",
            options={"intentional": ("ignores-grad-output",)}),
    Shipped("torch-interpol", _INTERPOL + "GridPull",
            lambda: (draw(1, 2, 4, 4), _GRID, 3, "dct2", True)),
    Shipped("torch-interpol", _INTERPOL + "GridPush",
            lambda: (draw(1, 1, 3, 3), _GRID, (4, 4), 1, "dft", True)),
    Shipped("torch-interpol", _INTERPOL + "GridCount", lambda: (_GRID, (4, 4), 2, "zero", True)),
    Shipped("torch-interpol", _INTERPOL + "GridGrad",
            lambda: (draw(1, 1, 4, 4), _GRID, 2, "dct2", True)),
    Shipped("torch-interpol", _INTERPOL + "SplineCoeffND",
            lambda: (draw(2, 4, 4), "dft", 3, 2, False)),
    Shipped("torch-interpol", _INTERPOL + "SplineCoeff", lambda: (draw(3, 6), "dct2", 3, -1, False),
            ("wrong-arity",), "backward returns a list: the engine takes it for one gradient"),
    Shipped("torch-interpol", _INTERPOL + "SplineCoeffND",
            lambda: (draw(4, 5), "dct1", 3, 1, False), ("transposed-gradient",),
            "with this boundary the filter is not symmetric: backward needs its transpose", "dct1"),
    Shipped("memory-efficient-attention-pytorch", _FLASH, lambda: (*_QKV, None, True, 4, 4),
            ("forward-raises",), "its running maximum is float32, whatever the inputs are"),
    Shipped("kornia", "kornia.losses.focal:_TargetLogSoftmax",
            lambda: (draw(2, 4, 3), torch.tensor([[[0, 3, 1]], [[2, 2, 0]]]), None)),
    Shipped("kornia", "kornia.losses.focal:_TargetLogSoftmax",
            lambda: (draw(2, 4, 3), torch.tensor([[[0, 3, 1]], [[2, 2, 0]]]),
                     torch.tensor([[[True, True, False]], [[True, False, True]]])), what="masked"),
    Shipped("kornia", "kornia.geometry.epipolar.essential:_NullSpaceBasis",
            lambda: (draw(1, 6, 9),), ("silent-double-backward",),
            "S and V are saved as constants: gradgradcheck fails", through=null_space),
    Shipped("gpytorch", "gpytorch.functions.rbf_covariance:RBFCovariance",
            lambda: (draw(4, 2), draw(3, 2, seed=1), lengthscale(), squared_distance),
            ("unreduced-broadcast", "silent-double-backward"),
            f"the lengthscale's gradient has the covariance's shape; {_DETACHED}"),
    *(Shipped("gpytorch", "gpytorch.functions.matern_covariance:MaternCovariance",
              lambda nu=nu: (draw(4, 2), draw(3, 2, seed=1), lengthscale(), nu, distance),
              ("unreduced-broadcast", "silent-double-backward"), "as in RBFCovariance", f"nu {nu}")
      for nu in (0.5, 1.5, 2.5)),
    Shipped("gpytorch", "gpytorch.functions._log_normal_cdf:LogNormalCDF",
            lambda: (torch.tensor([-3.0, -1.5, -0.5, 0.1, 1.0, 2.0]),),
            ("wrong-region", "tensor-on-ctx"),
            "below -1 it uses an expansion for z < -11: 6e-4 off, and not its derivative"),
    Shipped("gpytorch", "gpytorch.variational.large_batch_variational_strategy:QuadFormDiagonal",
            lambda: (covariance(3), draw(3, 4)),
            ("silent-double-backward", "wasted-gradient"), f"{_DETACHED}; {_ALL}"),
    Shipped("gpytorch", "gpytorch.variational.variational_strategy:ComputePredictiveUpdates",
            lambda: (torch.linalg.cholesky(covariance(3)), draw(3, 4), covariance(3, seed=1),
                     draw(3)),
            ("silent-double-backward", "wasted-gradient"), f"{_DETACHED}; {_ALL}"),
    Shipped("gpytorch", "gpytorch.variational.natural_variational_distribution:_NaturalToMuVarSqrt",
            lambda: (draw(3), -covariance(3)), ("silent-double-backward", "wasted-gradient"),
            f"{_NATURAL}; {_DETACHED}; {_ALL}",
            options={"intentional": ("missing-dependency", "gradient-mismatch")}),
    Shipped("linear-operator", _LINEAR + "_matmul:Matmul",
            lambda: (tree(covariance(4)), draw(4, 2), covariance(4)),
            ("saved-twice", "oversaved"), f"saved_tensors is read twice; {_SAVED_INPUT}"),
    Shipped("linear-operator", _LINEAR + "_solve:Solve",
            lambda: (tree(covariance(4)), False, draw(4, 2), covariance(4)),
            ("oversaved",), "the right-hand side is saved, and only its shape is used"),
    Shipped("linear-operator", _LINEAR + "_solve:Solve",
            lambda: (tree(covariance(4)), True, draw(3, 4, seed=2), draw(4, 2), covariance(4)),
            ("silent-double-backward", "oversaved"), f"{_DETACHED}; {_SAVED_INPUT}", "left"),
    Shipped("linear-operator", _LINEAR + "_inv_quad:InvQuad",
            lambda: (tree(covariance(4)), draw(4, 2), covariance(4)),
            ("silent-double-backward", "oversaved"), f"{_DETACHED}; {_SAVED_INPUT}"),
    Shipped("linear-operator", _LINEAR + "_pivoted_cholesky:PivotedCholesky",
            lambda: (tree(covariance(4)), 4, 1e-12, covariance(4)),
            ("missing-staticmethod",), "backward has no @staticmethod"),
    Shipped("linear-operator", _LINEAR + "_sqrt_inv_matmul:SqrtInvMatmul",
            lambda: (tree(covariance(3)), draw(3, 2), None, covariance(3)),
            ("unreduced-broadcast",), "one gradient for each point of the quadrature"),
    Shipped("snntorch", "snntorch.surrogate:ATan", lambda: (draw(3, 4), 2.0),
            ("undeclared-surrogate",), "a spike: nobody has said what it stands in for"),
    Shipped("snntorch", "snntorch.surrogate:ATan", lambda: (draw(3, 4), 2.0), what="declared",
            options={"surrogate": lambda x, a: torch.atan(math.pi / 2 * a * x) / math.pi}),
    Shipped("snntorch", "snntorch.surrogate:FastSigmoid", lambda: (draw(3, 4), 25.0),
            options={"surrogate": lambda x, k: x / (1 + k * x.abs())}),
    Shipped("snntorch", "snntorch.surrogate:Sigmoid", lambda: (draw(3, 4), 25.0), ("overflow",),
            "float32: nan below -3.55, where exp(-25 x) overflows and inf is divided by inf",
            options={"surrogate": lambda x, k: torch.sigmoid(k * x)}),
    Shipped("snntorch", "snntorch.surrogate:StraightThroughEstimator", lambda: (draw(3, 4),),
            ("gradient-dtype",), "forward's .float() makes everything float32",
            options={"surrogate": lambda x: x}),
    Shipped("snntorch", "snntorch.surrogate:SpikeRateEscape", lambda: (draw(3, 4), 1.0, 25.0),
            ("missing-staticmethod",), "backward has no @staticmethod",
            options={"surrogate": lambda x, b, k: k / b * torch.where(
                x < 1, torch.exp(b * (x - 1)) - 1, 1 - torch.exp(-b * (x - 1)))}),
    Shipped("snntorch", "snntorch.surrogate:LeakySpikeOperator", lambda: (draw(3, 4), 0.1),
            ("wrong-arity",), "no None for the slope: the engine raises"),
    Shipped("pypose", "pypose.lietensor.operation:so3_Exp", lambda: (draw(3, 3),), ("wrong-vmap",),
            f"{_TANGENT}; generate_vmap_rule, and a boolean mask that vmap does not take",
            options={"intentional": ("gradient-mismatch",)}),
    Shipped("pypose", "pypose.lietensor.operation:SO3_Act",
            lambda: (rotations(3), draw(3, 3)), ("silent-double-backward", "wasted-gradient"),
            f"{_TANGENT}; {_DETACHED}; {_ALL}",
            options={"intentional": ("gradient-mismatch",)}),
    Shipped("torchdiffeq", "torchdiffeq._impl.adjoint:OdeintAdjointMethod",
            lambda: (draw(1, 2), draw(2, 2, seed=1).requires_grad_()),
            ("silent-double-backward",), "gradgradcheck fails: the adjoint runs without a graph",
            through=adjoint_flow),
    Shipped("torchdiffeq", "torchdiffeq._impl.rk_common:_UncheckedAssign",
            lambda: (draw(3), torch.tensor(0.4), 1),
            ("mutates-input", "wrong-region"),
            "it writes past the version counter, and says so; the lost element gets a gradient"),
    Shipped("torchkbnufft", "torchkbnufft._autograd.interp:KbTableInterpForward",
            lambda: (draw(1, 1, 6, 6, dtype=torch.complex128),), ("saved-twice",),
            "saved_tensors is read twice", through=nufft),
    Shipped("revtorch", "revtorch.revtorch:_ReversibleModuleFunction", lambda: (draw(2, 6),),
            ("tensor-on-ctx", "not-reentrant"), f"{_ON_CTX} (the output, and only once)",
            through=reversible),
]

# --- Packages with many dependencies, whose Functions need only torch ----------------------------

_COUPLING = "memcnn.models.additive:"
_SPIKES = "spikingjelly.activation_based.surrogate:"

BY_HAND = [
    *(Shipped("memcnn", _COUPLING + name, lambda: (draw(2, 6),),
              ("silent-double-backward",), "gradgradcheck fails", through=coupling(name))
      for name in ("AdditiveBlockFunction", "AdditiveBlockFunction2",
                   "AdditiveBlockInverseFunction2")),
    Shipped("memcnn", _COUPLING + "AdditiveBlockInverseFunction", lambda: (draw(2, 6),),
            ("permuted-gradient",), "the two halves of the gradient are exchanged",
            through=coupling("AdditiveBlockInverseFunction")),
    *(Shipped("spikingjelly", _SPIKES + name, lambda args=args: (draw(3, 4), *args),
              options={"surrogate": primitive(of)})
      for name, of, args in (
          ("piecewise_quadratic", "PiecewiseQuadratic", (1.0,)),
          ("piecewise_exp", "PiecewiseExp", (1.0,)),
          ("sigmoid", "Sigmoid", (4.0,)),
          ("soft_sign", "SoftSign", (2.0,)),
          ("atan", "ATan", (2.0,)),
          ("nonzero_sign_log_abs", "NonzeroSignLogAbs", (1.0,)),
          ("erf", "Erf", (2.0,)),
          ("piecewise_leaky_relu", "PiecewiseLeakyReLU", (1.0, 0.01)),
          ("squarewave_fourier_series", "SquarewaveFourierSeries", (2, 8.0)),
          ("q_pseudo_spike", "QPseudoSpike", (2.0,)),
          ("leaky_k_relu", "LeakyKReLU", (0.1, 1.0)),
          ("log_tailed_relu", "LogTailedReLU", (1.0,)),
          ("rect", "Rect", (1.0,)))),
    Shipped("spikingjelly", "spikingjelly.activation_based.quantize:ClampATGF",
            lambda: (draw(3, 4), -0.5, 0.5)),
]

# --- PyTorch itself -----------------------------------------------------------------------------

_DB = "torch.testing._internal.autograd_function_db:"
_VIEW = "forward returns a view of its input"
_RESPONSE = "torch.nn.modules._functions:CrossMapLRN2d"
_PLACED = (draw(3, 5, seed=1), *permutation(), 1)

TORCH = [
    Shipped("torch", _DB + "NumpyCube", lambda: (0.8 + draw(3).abs(),)),
    Shipped("torch", _DB + "CubeGenVmap", lambda: (0.8 + draw(3).abs(),),
            ("ignores-grad-output",), "the second term lacks its cotangent: 6 · dinput is added"),
    Shipped("torch", _DB + "NumpyCubeNotComposable", lambda: (0.8 + draw(3).abs(),),
            ("ignores-grad-output",), "backward returns 3 x², whatever grad_output is"),
    Shipped("torch", _DB + "NumpyMul", lambda: (draw(3, 4), draw(3, 4, seed=1))),
    Shipped("torch", _DB + "NumpyMul", lambda: (draw(4), draw(3, 4)),
            ("unreduced-broadcast",), "it is used with broadcasting", "broadcast"),
    Shipped("torch", _DB + "MulGenVmap", lambda: (draw(3, 4), draw(3, 4, seed=1))),
    Shipped("torch", _DB + "NumpyExp_", lambda: (draw(4),)),
    Shipped("torch", _DB + "NumpySort", lambda: (draw(3, 5), 1),
            ("permuted-gradient",), "forward returns x unsorted, backward undoes the sorting"),
    Shipped("torch", _DB + "SortGenVmap", lambda: (draw(3, 5), 1)),
    Shipped("torch", _DB + "NumpyTake", lambda: _PLACED),
    Shipped("torch", _DB + "TakeGenVmap", lambda: _PLACED),
    Shipped("torch", _DB + "Select", lambda: (draw(3, 5), 2), ("returns-view",), _VIEW),
    Shipped("torch", _DB + "SelectGenVmap", lambda: (draw(3, 5), 2), ("returns-view",), _VIEW),
    Shipped("torch", _DB + "ForwardHasDefaultArgs", lambda: (draw(3, 5), (1,)),
            ("returns-view",), _VIEW),
    Shipped("torch", _DB + "ScaleGradGenVmap", lambda: (draw(3),), why="it scales the gradient",
            options={"intentional": ("constant-factor",)}),
    Shipped("torch", _DB + "ZeroGradientsGenVmap", lambda: (draw(4), draw(3, 4)),
            ("unreduced-broadcast",), "zeros, and too many of them: both on purpose"),
    Shipped("torch", "torch._lobpcg:LOBPCGAutogradFunction", lambda: (draw(4, 4),),
            through=largest_eigenvalue),
    Shipped("torch", "torch.autograd._functions:Resize", lambda: (draw(3, 4), (2, 6)),
            ("returns-view",), _VIEW),
    Shipped("torch", "torch.distributions.dirichlet:_Dirichlet", lambda: (1 + draw(3).abs(),),
            ("once-differentiable-leak",),
            "the gradient of the distribution's samples, not of this sampler with fixed noise",
            options={"intentional": ("gradient-mismatch",)}),
    Shipped("torch", "torch.nn.modules._functions:BackwardHookFunction",
            lambda: (draw(3), draw(2)), ("returns-view",), "it returns its inputs"),
    Shipped("torch", _RESPONSE, lambda: (draw(2, 6, 1, 2), 3, 1.0),
            ("forward-mismatch", "tensor-on-ctx"),
            "the sliding sum drops each channel one step late", "size 3",
            {"reference": response_norm}),
    Shipped("torch", _RESPONSE, lambda: (draw(2, 6, 1, 2), 5, 1.0),
            ("forward-mismatch", "tensor-on-ctx"),
            "as for size 3", "size 5", {"reference": response_norm}),
    Shipped("torch", _RESPONSE, lambda: (draw(2, 6, 1, 2), 3, 1.0),
            ("gradient-mismatch", "tensor-on-ctx"),
            "backward sums over another window than forward does", "by differences"),
    Shipped("torch", "torch.utils.checkpoint:CheckpointFunction",
            lambda: (draw(2, 3), draw(3, 3, seed=1)), ("silent-double-backward",),
            "the graph of the reentrant variant ends at .detach()", through=checkpointed),
    Shipped("torch", "torch._inductor.test_operators:Realize", lambda: (draw(3, 4),)),
    Shipped("torch", "torch._export.db.examples.autograd_function:MyAutogradFunction",
            lambda: (draw(3),), ("ignores-grad-output",), "an example that adds 1 to grad_output"),
]
# fmt: on

ROWS = GROUP + BY_HAND + TORCH


# The verdict on a row


def installed(shipped: Shipped) -> bool:
    needed = [shipped.path.partition(":")[0].partition(".")[0]]
    if shipped.path.startswith("torch.testing."):
        needed.append("expecttest")
    return all(map(find_spec, needed))


def verdict(shipped: Shipped) -> Diagnosis:
    with warnings.catch_warnings():  # a package's own warnings do not matter here
        warnings.simplefilter("ignore")
        return diagnose(shipped.subject(), shipped.inputs(), **shipped.options)


def told(diagnosis: Diagnosis, expected: tuple[str, ...]) -> tuple[str, ...]:
    """Return the rules found: errors, warnings, and the notes that the expert also mentions."""
    return tuple(
        finding.rule
        for finding in diagnosis.findings
        if finding.severity != "info" or finding.rule in expected
    )

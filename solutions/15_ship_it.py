# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/solutions/15_ship_it.ipynb)
#
# # 15 · Ship it: exercises
#
# Lesson 15 lost a gradient on the way to a sorter. Here you make the programs, and the tools that notice what is lost: two exports, a proof, a translation to ONNX, a quantizer, and at the end the sorter itself.
#
# **Given:** the task, and the name and the arguments of every function. All exercises ask for plain functions.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it.
#
# **How it is graded:** the grader calls your function with models that you do not see, saves what comes back, loads it, and runs it beside the model in eager. The first export after a restart takes some seconds. Where you try things out yourself, do it under `with quiet():`, as the lesson does.
#
# 16 points, about 75 minutes (10 of them for the exercises with ★, which need an *extra* section).

# %% tags=["setup"] jupyter={"source_hidden": true}
# Install the course on Colab.
# Elsewhere `make lab` has done so, and this cell does nothing.
import sys

if "google.colab" in sys.modules:
    import importlib.util
    import subprocess

    from google.colab import output

    if importlib.util.find_spec("autograd_course") is None:
        address = "git+https://github.com/autograd-course/autograd_course@main"
        doctor = address + "#subdirectory=packages/autograd-doctor"
        course = "autograd-course[ship] @ " + address
        pip = [sys.executable, "-m", "pip", "install", "--quiet", doctor, course]
        subprocess.run(pip, check=True)
    output.enable_custom_widget_manager()

# %% jupyter={"source_hidden": true}
import copy

import torch
from torch import Tensor, nn
from torch.export import Dim

from autograd_course import grade, hint, progress
from autograd_course.lesson import quiet, require_packages, run_onnx, split_digits

require_packages()  # says what to install if a package that only this lesson needs is missing

# %% [markdown]
# ## 1 · A program for any batch (2 points · medium · 9 minutes)
#
# You are given a model in the middle of its training, and a batch of 8 examples. The model holds a custom Function, and a dropout. From now on, somebody else is to get predictions from it, for one image or for a thousand.
#
# **Write** the function. It returns what `torch.export.export` returns: an `ExportedProgram`, not its `.module()`.
#
# **Constraints:** saved and loaded, the program takes batches of any size, and predicts as the model does in eval mode. A program has no mode to change later. The training goes on after your function has returned, so the model keeps the mode that it had.


# %% nbgrader={"grade": false, "grade_id": "any-batch", "locked": false, "schema_version": 3, "solution": true, "task": false}
def ship(model: nn.Module, example: Tensor) -> torch.export.ExportedProgram:
    ### BEGIN SOLUTION
    predicting = copy.deepcopy(model).eval()
    any_size = ({0: Dim("batch")},)
    return torch.export.export(predicting, (example,), dynamic_shapes=any_size)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "any-batch-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("any-batch", ship)

# %% [markdown]
# ## 2 · What did not arrive (3 points · medium · 15 minutes)
#
# The test that the makers of the sorter did not run. `model` is the eager model, `shipped` a loaded program as a module, with the same names of parameters. With the same $g = \partial L/\partial y$ sent back through both (`grad_outputs` of `torch.autograd.grad`), which parameters get another gradient from `shipped` than from `model`?
#
# **Write** the function. It returns the list of their names, as `named_parameters()` spells them; an empty list is the proof.
#
# **Constraints:**
#
# - It finds gradients of zeros, and gradients that arrive and are wrong. The models may end in anything, a softmax for example: so choose $g$ with care.
# - Last digits may differ, since another order of the same sums rounds otherwise.
# - A parameter that neither model uses has not been lost.
# - Nobody's `.grad` is filled or changed.


# %% nbgrader={"grade": false, "grade_id": "lost-gradients", "locked": false, "schema_version": 3, "solution": true, "task": false}
def lost_gradients(model: nn.Module, shipped: nn.Module, x: Tensor) -> list[str]:
    ### BEGIN SOLUTION
    g = torch.randn_like(model(x))
    names = [name for name, _ in model.named_parameters()]

    def gradients(net: nn.Module) -> tuple[Tensor, ...]:
        parameters = [net.get_parameter(name) for name in names]
        return torch.autograd.grad(net(x), parameters, g, materialize_grads=True)

    pairs = zip(names, gradients(model), gradients(shipped), strict=True)
    return [name for name, there, here in pairs if not torch.allclose(there, here)]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "lost-gradients-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("lost-gradients", lost_gradients)

# %% [markdown]
# ## 3 · A reversal that travels (2 points · medium · 8 minutes)
#
# Gradient reversal, for a domain classifier: with strength $\lambda$,
#
# $$y = x, \qquad \frac{\partial L}{\partial x} = -\lambda \, \frac{\partial L}{\partial y} .$$
#
# Lesson 09 wrote it as a Function. Checkpoint 1 of lesson 15 exported that Function, and out came a gradient with the sign it had before.
#
# **Write** the function. `x` is a tensor of any shape, `strength` a Python float.
#
# **Constraint:** the gradient is turned around in eager *and* in the exported program, which has nothing but the operations of your forward.


# %% nbgrader={"grade": false, "grade_id": "reversal-that-travels", "locked": false, "schema_version": 3, "solution": true, "task": false}
def reverse(x: Tensor, strength: float) -> Tensor:
    ### BEGIN SOLUTION
    reversed_part = -strength * x
    return reversed_part + (x - reversed_part).detach()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "reversal-that-travels-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("reversal-that-travels", reverse)

# %% [markdown]
# ## 4 · A rounding, translated ★ (3 points · medium · 9 minutes · needs "An operator of your own in ONNX")
#
# A vendor's chip rounds as the C language does: to the nearest multiple of a step, *halves away from zero*,
#
# $$y = s \, \operatorname{sign}(x) \left\lfloor \frac{|x|}{s} + \tfrac12 \right\rfloor .$$
#
# In PyTorch it is a custom operator (played by PyTorch here):


# %%
@torch.library.custom_op("vendor::round_away", mutates_args=())
def round_away(x: Tensor, step: float) -> Tensor:
    return step * x.sign() * (x.abs() / step + 0.5).floor()


@round_away.register_fake
def _(x, step):
    return torch.empty_like(x)


halves = torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])
print("torch.round:", halves.round().tolist())
print("the chip:   ", round_away(halves, 1.0).tolist())

# %% [markdown]
# ONNX has no word for it, so the exporter must be told what to write.
#
# **Write** the translation, as `custom_translation_table` takes it: a function of the operator's arguments that returns what the last ONNX operator returns. `op.Name(…)` is the ONNX operator of that name, as in `op.Mul(x, 2.0)`, for which you may also write `x * 2.0` (all are listed at [onnx.ai](https://onnx.ai/onnx/operators/)). `x` is a value in the ONNX graph, and no function of `torch` knows it; `step` is a Python float.
#
# **Constraint:** `onnx.checker` accepts the file, and ONNX Runtime computes with it what the operator computes, halves of both signs included.


# %% nbgrader={"grade": false, "grade_id": "round-away-in-onnx", "locked": false, "schema_version": 3, "solution": true, "task": false}
def round_away_in_onnx(x, step: float):
    from onnxscript import opset18 as op

    ### BEGIN SOLUTION
    steps = op.Floor(op.Add(op.Div(op.Abs(x), step), 0.5))
    return op.Mul(op.Mul(op.Sign(x), steps), step)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "round-away-in-onnx-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("round-away-in-onnx", round_away_in_onnx)

# %% [markdown]
# That is the whole road, if you want to see it run: a model with the operator, exported with your translation, and the file in ONNX Runtime.


# %%
class Rounded(nn.Module):
    def forward(self, x):
        return round_away(x, 1.0)


table = {torch.ops.vendor.round_away.default: round_away_in_onnx}
try:
    with quiet():
        program = torch.export.export(Rounded(), (halves,))
        file = torch.onnx.export(
            program,
            dynamo=True,
            opset_version=18,
            verbose=False,
            custom_translation_table=table,
        )
    print("ONNX Runtime:", run_onnx(file, halves).tolist())
except torch.onnx.OnnxExporterError:
    print("no file: the translation is not finished")

# %% [markdown]
# ## 5 · Eight bits by hand (2 points · easy · 6 minutes)
#
# What torchao's `Int8WeightOnlyConfig` keeps of a weight matrix, one scale for each row $i$:
#
# $$s_i = \max\!\Bigl(\frac{\max_j |w_{ij}|}{127.5},\ \varepsilon\Bigr), \qquad
# q_{ij} = \operatorname{clamp}\!\Bigl(\operatorname{round}\frac{w_{ij}}{s_i},\ -128,\ 127\Bigr) .$$
#
# $\varepsilon$ is `torch.finfo(weight.dtype).eps`, so that a row of zeros does no harm.
#
# **Write** the function. For a weight of shape `(rows, columns)` it returns two tensors: $s$, of shape `(rows, 1)` and the weight's dtype, then $q$, of the weight's shape and dtype `torch.int8`.


# %% nbgrader={"grade": false, "grade_id": "eight-bits", "locked": false, "schema_version": 3, "solution": true, "task": false}
def eight_bits(weight: Tensor) -> tuple[Tensor, Tensor]:
    ### BEGIN SOLUTION
    eps = torch.finfo(weight.dtype).eps
    scales = (weight.abs().amax(1, keepdim=True) / 127.5).clamp(min=eps)
    return scales, (weight / scales).round().clamp(-128, 127).to(torch.int8)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "eight-bits-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("eight-bits", eight_bits)

# %% [markdown]
# ## 6 · A sorter that learns on (4 points · hard · 25 minutes)
#
# The sorter once more, and this time it arrives. You get the digits' images, `(1397, 64)` in float32 with values from -1 to 1, and their labels, `(1397,)`.
#
# **Write** the three parts: the levels, the net, and the function that builds a net, trains it, exports it, and returns the program. (`ship` of exercise 1 is at hand.)
#
# **Constraints**, all of the program that the grader has saved and loaded:
#
# - at least 90% of 400 held-out digits right;
# - on four levels: whatever comes to a matrix product behind the first takes at most four different values;
# - any batch;
# - it learns on: a gradient that is not zero arrives at every weight matrix.
#
# `split_digits()` gives what the grader uses; the grader's own run takes as long as your training.


# %% nbgrader={"grade": false, "grade_id": "the-sorter", "locked": false, "schema_version": 3, "solution": true, "task": false}
def four_levels(x: Tensor) -> Tensor:
    ### BEGIN SOLUTION
    h = x.clamp(0, 1)
    q = (h * 3).round() / 3
    return (q - h).detach() + h
    ### END SOLUTION


class Sorter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.first, self.second = nn.Linear(64, 32), nn.Linear(32, 32)
        self.last = nn.Linear(32, 10)
        ### END SOLUTION

    def forward(self, images: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        hidden = four_levels(self.second(four_levels(self.first(images))))
        return self.last(hidden)
        ### END SOLUTION


def deliver(images: Tensor, labels: Tensor) -> torch.export.ExportedProgram:
    ### BEGIN SOLUTION
    net = Sorter()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.005)
    for _ in range(100):
        loss = nn.functional.cross_entropy(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return ship(net, images[:8])
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "the-sorter-grade", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
grade("the-sorter", deliver)

# %% [markdown]
# ## Where you are


# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# Keep `lost_gradients`: it is ten lines, it needs nothing of this course, and it belongs into the test suite of whatever you ship that will be trained on. Beside it goes the comparison of the numbers, on inputs and batch sizes that the example did not have.
#
# That was the last exercise. For a harder one, take a Function that somebody relies on, and ship it.

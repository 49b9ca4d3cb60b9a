# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/solutions/15_ship_it.ipynb)
#
# # 15 · Ship it: exercises
#
# In lesson 15 a gradient got lost on the way to a sorter. Here you write the exports, a test that finds lost gradients, a translation to ONNX, a quantizer, and finally the sorter itself. You may already have solved `reversal-that-travels` in the lesson.
#
# **Given:** the task and the signatures of all functions. Every exercise asks for plain functions.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it.
#
# **How it is graded:** the grader calls your function with models that you do not see. It saves and loads the result, and compares it with the model in eager mode. The first export after a restart takes a few seconds. For your own experiments, use `with quiet():` as in the lesson.
#
# 16 points, about 75 minutes (9 of them for the exercises with ★, which need an *extra* section).

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
# You get a model in the middle of its training, and a batch of 8 examples. The model contains a custom Function and a dropout layer. Other people need predictions from it, for one image or for a thousand.
#
# **Write** the function. It returns the `ExportedProgram` from `torch.export.export`, not its `.module()`. If `dynamic_shapes` is a tuple, you need no name for the input of the model.
#
# **Constraints:**
#
# - After saving and loading, the program takes batches of any size.
# - The program makes the same predictions as the model does in eval mode. A program has no mode that you can change later.
# - The training continues after your function returns, so the model keeps the mode that it had, and so does each of its layers.


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
# This is the test that the sorter needed. `model` is the eager model. `shipped` is a loaded program as a module, and its parameters have the same names. Send the same $g = \partial L/\partial y$ back through both, as `grad_outputs` of `torch.autograd.grad`. Which parameters get different gradients?
#
# **Write** the function. It returns the list of their names, as in `named_parameters()`. An empty list proves that no gradient was lost.
#
# **Constraints:**
#
# - It finds gradients that are zero and gradients that are wrong. The last layer may be of any kind, for example a softmax, so choose $g$ with care.
# - The last digits may differ, because the two models may add numbers in different orders.
# - A parameter that neither model uses does not count as lost.
# - The function does not fill or change any `.grad`.


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
# A gradient reversal with strength $\lambda$ trains features that a domain classifier cannot use:
#
# $$y = x, \qquad \frac{\partial L}{\partial x} = -\lambda \, \frac{\partial L}{\partial y} .$$
#
# Checkpoint 1 of lesson 15 exported it as a Function, and the exported gradient had the wrong sign.
#
# **Write** the function. `x` is a tensor of any shape, and `strength` is a Python float.
#
# **Constraint:** the gradient is reversed in eager mode *and* in the exported program, which contains only the operations in `reverse`.


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
# A vendor's chip rounds as the C language does. It rounds to the nearest multiple of a step, and it rounds *halves away from zero*:
#
# $$y = s \, \operatorname{sign}(x) \left\lfloor \frac{|x|}{s} + \tfrac12 \right\rfloor .$$
#
# In PyTorch, the chip's rounding is a custom operator. Here, PyTorch's own operations compute it:


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
# ONNX has no operator for this rounding, so you must give the exporter a translation.
#
# **Write** the translation for `custom_translation_table`. It takes the operator's arguments and returns the result of the last ONNX operator. `op.Name(…)` calls the ONNX operator with this name, for example `op.Mul(x, 2.0)`. You may also write `x * 2.0`. [onnx.ai](https://onnx.ai/onnx/operators/) lists all operators. `x` is a value in the ONNX graph, so no function of `torch` accepts it. `step` is a Python float.
#
# **Constraint:** `onnx.checker` accepts the file, and ONNX Runtime computes the same values as the operator, including halves of both signs.


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
# The next cell shows all the steps. It exports a model that calls the operator, converts the program with your translation, and runs the file in ONNX Runtime.


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
# ## 5 · Eight bits that train (2 points · medium · 9 minutes)
#
# A model loses less accuracy if it already uses rounded weights during training. Quantize a weight matrix to eight bits as torchao does, with one scale $s_i$ for each row, and convert the integers back:
#
# $$s_i = \max\!\Bigl(\frac{\max_j |w_{ij}|}{127.5},\ \varepsilon\Bigr), \qquad
# \hat w_{ij} = s_i \operatorname{clamp}\!\Bigl(\operatorname{round}\frac{w_{ij}}{s_i},\ -128,\ 127\Bigr) .$$
#
# $\varepsilon$ is `torch.finfo(weight.dtype).eps`. It prevents division by zero in a row of zeros. The gradient passes straight through the whole computation:
#
# $$\frac{\partial L}{\partial w} := \frac{\partial L}{\partial \hat w} .$$
#
# **Write** the function. For a weight of shape `(rows, columns)`, it returns $\hat w$.
#
# **Constraints:**
#
# - The gradient is right in eager mode *and* in the exported program.
# - The weight does not change.


# %% nbgrader={"grade": false, "grade_id": "eight-bits", "locked": false, "schema_version": 3, "solution": true, "task": false}
def eight_bits(weight: Tensor) -> Tensor:
    ### BEGIN SOLUTION
    eps = torch.finfo(weight.dtype).eps
    scales = (weight.abs().amax(1, keepdim=True) / 127.5).clamp(min=eps)
    rounded = scales * (weight / scales).round().clamp(-128, 127)
    return (rounded - weight).detach() + weight
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "eight-bits-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("eight-bits", eight_bits)

# %% [markdown]
# ## 6 · A sorter that learns on (4 points · hard · 25 minutes)
#
# Now build a sorter that can learn after export. You get the images of the digits as a float32 tensor of shape `(1397, 64)` with values from -1 to 1, and their labels as a tensor of shape `(1397,)`.
#
# **Write** the three parts: the levels, the net, and the function that builds a net, trains it, exports it and returns the program. You can use `ship` from exercise 1.
#
# **Constraints** for the program that the grader has saved and loaded:
#
# - It classifies at least 90% of 400 held-out digits correctly.
# - It has four levels: the input of each matrix product after the first has at most four different values, up to the rounding of float32.
# - It takes any batch size.
# - It can learn: every weight matrix gets a gradient that is not zero, and not negligible next to the largest one.
#
# `split_digits()` returns the data that the grader uses. The grader trains the net itself, which takes as long as your training.


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
# Keep `lost_gradients`. It has ten lines and works without this course. Add it to the tests of every model that anyone trains after export. In these tests, also compare the values, with inputs and batch sizes that differ from the example's.
#
# This was the last exercise.

# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/15_ship_it.ipynb)
#
# # 15 · Ship it
#
# **You will** export a trained network that contains a custom Function, convert it to ONNX,
# quantize it, and check the values and gradients after each step.
#
# **You will learn** what `torch.export` silently drops from a Function, how to write a gradient
# that survives, and how to convert your own operator to ONNX.
#
# **You need** lessons 01 and 02, and the straight-through estimator from lesson 05.
#
# **It takes** about 55 minutes; the *extra* sections take another 15. You solve one exercise
# here. The others are in the exercise notebook.

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
import io
import re
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.autograd import Function, grad
from torch.export import Dim
from torch.nn.functional import cross_entropy

from autograd_course import diagnose, grade, hint  # noqa: F401
from autograd_course.functions import GradientReversal
from autograd_course.lesson import (
    BLUE,
    ORANGE,
    check_onnx,
    figure,
    note,
    predict,
    quiet,
    require_packages,
    run_onnx,
    show_error,
    split_digits,
    stored_bytes,
    vote,
)
from autograd_course.visualize import compare_flows, knowledge_check

require_packages()

# %% [markdown]
# ## A net that stops learning
#
# A letter sorter reads handwritten digits with a small camera. Its chip allows only four activation
# values: 0, ⅓, ⅔ and 1. Rounding has no usable gradient, so the activation is a Function with a
# straight-through estimator. `forward` clamps and rounds, and `backward` returns only the gradient
# of the clamp. `diagnose` tests it against this surrogate:


# %%
class Levels(Function):
    """y = x clamped to [0, 1] and rounded to n levels; surrogate: the clamp."""

    @staticmethod
    def forward(x, n):
        return (x.clamp(0, 1) * (n - 1)).round() / (n - 1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, _ = inputs
        ctx.save_for_backward((x >= 0) & (x <= 1))

    @staticmethod
    def backward(ctx, grad_output):
        (inside,) = ctx.saved_tensors
        return grad_output * inside, None


x = torch.tensor([-0.4, 0.2, 0.6, 1.3], dtype=torch.float64)
print(diagnose(Levels, (x, 4), surrogate=lambda x, n: x.clamp(0, 1)))


# %% jupyter={"source_hidden": true}
class Net(nn.Module):
    def __init__(self, levels):
        super().__init__()
        self.levels = levels
        self.first, self.second = nn.Linear(64, 32), nn.Linear(32, 32)
        self.last = nn.Linear(32, 10)

    def forward(self, images):
        hidden = self.levels(self.first(images), 4)
        return self.last(self.levels(self.second(hidden), 4))


def train(net, images, labels):
    """Train for 100 steps and return the loss of each step."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.005)
    losses = []
    for _ in range(100):
        loss = cross_entropy(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def accuracy(net, images, labels):
    with torch.no_grad():
        return (net(images).argmax(-1) == labels).double().mean().item()


# %% jupyter={"source_hidden": true}
def sideways(data):
    return data._replace(images=data.images.reshape(-1, 8, 8).rot90(1, (1, 2)).reshape(-1, 64))


# float64, so that the run is the same on every machine
shown, held_out = (data._replace(images=data.images.double()) for data in split_digits())
turned, turned_held_out = sideways(shown), sideways(held_out)
few = turned._replace(images=turned.images[:200], labels=turned.labels[:200])
torch.manual_seed(0)
shelf = tempfile.TemporaryDirectory()
folder = Path(shelf.name)

# %% [markdown]
# The network has two hidden layers with this activation. After training, `torch.export` turns the
# model and an example input into one file that does not need our Python code. `Dim("batch")`
# declares that the first dim of the images can have any size. (`quiet()` hides known warnings about
# PyTorch's own code.)


# %%
def ship(model):
    """Export the model, save it, and return what a user loads."""
    with quiet():
        any_batch = ({0: Dim("batch")},)
        program = torch.export.export(model, (shown.images[:8],), dynamic_shapes=any_batch)
        torch.export.save(program, folder / "net.pt2")
        return torch.export.load(folder / "net.pt2").module()


net = Net(Levels.apply).double()
train(net, *shown)
shipped = ship(net)
print("largest difference:", (shipped(held_out.images) - net(held_out.images)).abs().max().item())
print(f"accuracy on held-out digits: {accuracy(shipped, *held_out):.0%}")

# %% [markdown]
# The loaded program computes exactly the same scores. But in the real machine, the camera is
# mounted sideways, so each sorter continues training on 200 labeled images of its own. We do the
# same with the original network in the lab and with the loaded program:

# %%
print(f"on sideways images, before: {accuracy(shipped, *turned_held_out):.0%}")
in_the_lab = copy.deepcopy(net)
lab_losses = train(in_the_lab, *few)
sorter_losses = train(shipped, *few)
print(f"trained in the lab:         {accuracy(in_the_lab, *turned_held_out):.0%}")
print(f"trained in the sorter:      {accuracy(shipped, *turned_held_out):.0%}")

# %% jupyter={"source_hidden": true}
with figure(columns=2, height=3.2) as (seen, learned):
    tiles = torch.full((17, 44), float("nan"), dtype=torch.float64)
    for k in range(5):
        for row, data in ((0, held_out), (9, turned_held_out)):
            tiles[row : row + 8, 9 * k : 9 * k + 8] = data.images[k].reshape(8, 8)
    seen.imshow(tiles, cmap="gray_r")
    seen.set(title="images in the lab (top) and in the sorter")
    seen.axis("off")
    learned.plot(sorter_losses, color=ORANGE, linestyle="--")
    learned.plot(lab_losses, color=BLUE)
    learned.set(title="two runs from the same weights", xlabel="step", ylabel="loss")
    note(learned, "in the sorter", (55, sorter_losses[55] + 0.35), ORANGE)
    note(learned, "in the lab", (35, lab_losses[35] + 0.3), BLUE)

# %% [markdown]
# The weights, the data and the optimizer are the same, but the sorter learns much less. Its loss
# falls too, so you might blame the small number of images. The gradients show the cause:

# %%
for place, model in (("lab", in_the_lab), ("sorter", shipped)):
    for layer in ("first", "second", "last"):
        size = model.get_parameter(f"{layer}.weight").grad.norm()
        print(f"{place:7} norm of the gradient, {layer:6} layer: {size:.2f}")

# %% [markdown]
# In the sorter, all gradients before the last rounding are zero. Export kept our Function's
# `forward` and dropped its `backward` without a warning.
#
# **Your turn.** Write the same surrogate without a Function. The result should have the value of
# `q`, but the gradient of `h`. Lesson 05 used `detach` for this. Run the cell before and after you
# change the last line of `straight`.


# %%
def straight(x, n):
    h = x.clamp(0, 1)
    q = (h * (n - 1)).round() / (n - 1)
    return q  # change this line


plain_net = copy.deepcopy(net)
plain_net.levels = straight
shipped = ship(plain_net)
train(shipped, *few)
print(f"trained in the sorter: {accuracy(shipped, *turned_held_out):.0%}")

# %% [markdown]
# ## The whole thing, working
#
# `(q - h).detach() + h` has the value of $q$. Autograd treats the detached part as a constant, so
# the result has the gradient of $h$.


# %%
def straight(x, n):
    h = x.clamp(0, 1)
    q = (h * (n - 1)).round() / (n - 1)
    return (q - h).detach() + h


plain_net.levels = straight
shipped = ship(plain_net)
difference = (shipped(held_out.images) - net(held_out.images)).abs().max().item()
print(f"largest difference: {difference:.6f}")
train(shipped, *few)
print(f"trained in the sorter: {accuracy(shipped, *turned_held_out):.0%}")

# %% [markdown]
# So export, save and load the model, and compare the values. If anyone is going to differentiate
# the program, also compare the gradients. Why does only one of the two implementations keep its
# gradient?

# %% [markdown]
# ## What the graph holds
#
# `torch.export` runs the model once on *fake tensors*, which have a shape and a dtype but no
# numbers. It records each operation of ATen, the library underneath `torch`, in a list:


# %%
def export(model, example=shown.images[:8]):
    with quiet(), redirect_stderr(io.StringIO()):
        return torch.export.export(model, (example,), dynamic_shapes=({0: Dim("batch")},))


def operations(program):
    """Return the names of the operations, such as "linear" for aten.linear.default."""
    called = [node.target for node in program.graph.nodes if node.op == "call_function"]
    return [str(target).split(".")[1] for target in called]


print("with the Function: ", *operations(export(net)))
print("in plain autograd: ", *operations(export(plain_net)))

# %% [markdown]
# Export ran the Function's forward pass, so its operations are in the list, even the mask
# (`ge le __and__`) that the program never uses. But `ctx` and `backward` are Python code, not
# operations, so they are missing. If you differentiate the loaded program, autograd applies its own
# rules to the operations, and the derivative of the rounding is 0. `detach` is an operation, so the
# second list contains it. (JAX calls it *stop-gradient*.)
#
# Hooks are also Python code, so export drops hooks on tensors. A hook on a parameter is lost only
# when you save the program.
#
# The next picture shows the eager graph and the exported graph for the loss
# $(\text{levels}(x) \cdot w)^2$. Step through them with → and ←.


# %%
class Loss(nn.Module):
    def forward(self, x, w):
        return (Levels.apply(x, 4) * w) ** 2


x, w = torch.tensor(0.6), torch.tensor(3.0)
with quiet():
    exported_loss = torch.export.export(Loss(), (x, w)).module()

compare_flows({"eager": Loss(), "exported": exported_loss}, x, w)

# %% [markdown]
# With `strict=True`, the compiler's front end reads the model's Python code and recognizes
# `autograd.Function`.

# %%
vote("15", "strict-backward")

# %%
for strict in (False, True):
    with quiet():
        exported_loss = torch.export.export(Loss(), (x, w), strict=strict).module()
    leaf = x.clone().requires_grad_()
    (found,) = grad(exported_loss(leaf, w), leaf)
    print(f"strict={strict!s:6} gradient of x: {found.item():.0f}")

# %% [markdown]
# Strict mode also drops `backward`. Does this matter if your `backward` returns the true gradient
# instead of a surrogate? Here is a norm whose gradient at the origin is set to 0:


# %%
class Norm(Function):
    """r = ‖x‖ over the last dim; ∂L/∂x = x/r · ∂L/∂r, and 0 at the origin."""

    @staticmethod
    def forward(x):
        return x.square().sum(-1, keepdim=True).sqrt()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, r = ctx.saved_tensors
        return grad_output * x / r.clamp(min=1e-12)


class Length(nn.Module):
    def forward(self, x):
        return Norm.apply(x)


# %%
vote("15", "true-gradient-exported")

# %%
points = torch.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
with quiet():
    exported_length = torch.export.export(Length(), (points,)).module()
for name, length in (("eager", Length()), ("exported", exported_length)):
    (found,) = grad(length(points).sum(), points)
    print(f"{name:9} {[[round(v, 1) for v in row] for row in found.tolist()]}")

# %% [markdown]
# Away from the origin, both gradients are the same. But here, a single point at the origin is
# enough: after the next optimizer step, all weights before the norm are `nan`. The page [The
# gradient at a kink](../docs/kinks.md) explains why.
#
# ### Checkpoint 1
#
# A gradient reversal returns $x$ unchanged in `forward` and $-g$ in `backward`. In an exported
# model, it precedes a domain classifier. The gradient at the classifier's input is 3. What gradient
# arrives at the input of the exported reversal?


# %%
class Reversed(nn.Module):
    def forward(self, x):
        return 3 * GradientReversal.apply(x, 1.0)


leaf = torch.tensor([1.0], requires_grad=True)
with quiet():
    exported_reversal = torch.export.export(Reversed(), (leaf.detach(),)).module()

predict(..., grad(exported_reversal(leaf), leaf)[0])

# %% [markdown]
# <details><summary>Why</summary>
#
# The gradient is 3. The program contains only a copy and a multiplication by 3. The minus sign was
# in `backward`, so it is lost. The features now learn to *help* the domain classifier.
#
# </details>

# %% [markdown]
# ## Three ways to carry a gradient
#
# The third way is a *custom operator* (lesson 12). It can call code that export cannot record, such
# as the chip vendor's library. Here, NumPy plays that role. You register the operator's
# implementation, the shape of its output (`register_fake`) and its gradient (`register_autograd`).


# %%
@torch.library.custom_op("course::levels", mutates_args=())
def levels_op(x: torch.Tensor, n: int) -> torch.Tensor:
    return torch.from_numpy(np.rint(x.detach().numpy().clip(0, 1) * (n - 1)) / (n - 1))


@levels_op.register_fake
def _(x, n):
    return torch.empty_like(x)


levels_op.register_autograd(Levels.backward, setup_context=Levels.setup_context)

spellings = {"Function": Levels.apply, "plain autograd": straight, "custom operator": levels_op}
print("first layer: norm of the gradient | operations of the activation")
for name, spelling in spellings.items():
    model = copy.deepcopy(net)
    model.levels = spelling
    loaded = ship(model)
    cross_entropy(loaded(turned.images), turned.labels).backward()
    size = loaded.get_parameter("first.weight").grad.norm()
    _, *after = operations(export(model))  # without the first matrix product
    print(f"{name:15} {size:.2f} |", *after[: after.index("linear")])

# %% [markdown]
# The custom operator is a single node with a name. The next cell loads the last file in a new
# Python process.

# %%
vote("15", "operator-elsewhere")

# %%
path = folder / "net.pt2"
code = f"""
import torch
from autograd_course.lesson import show_error
with show_error():
    torch.export.load({str(path)!r})
"""
elsewhere = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
print(elsewhere.stdout)
print("in the log:", *re.findall(r"failed to resolve \S+", elsewhere.stderr)[:1])

# %% [markdown]
# For *inference*, a Function is the simplest choice, and it works correctly. If anyone is going to
# train the program, use plain autograd or a custom operator. The page [What
# survives](../docs/what_survives.md) shows what export and other tools do with each kind of
# Function.
#
# ### Exercise 1: a reversal that travels
#
# Write a gradient reversal that works in eager mode and after export. The value is $x$, and the
# gradient is $-\lambda g$, where $\lambda$ is `strength`. Use only operations that `torch.export`
# can record. If you are stuck, run `hint("reversal-that-travels")` in a new cell.


# %%
def reverse(x, strength):
    # YOUR CODE HERE
    raise NotImplementedError


# %%
grade("reversal-that-travels", reverse)

# %% [markdown]
# ## What export refuses
#
# An exported program contains no `if` and no NumPy. The camera delivers gray values from 0 to 255,
# so the sorter scales the images unless they are already scaled. The next cell tries to export this
# model, and then a net whose Function calls NumPy:


# %%
class Sorter(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, images):
        if images.max() > 1:
            images = images / 127.5 - 1
        return self.net(images)


class NumPyLevels(Levels):
    @staticmethod
    def forward(x, n):
        return torch.from_numpy(np.rint(x.detach().numpy().clip(0, 1) * (n - 1)) / (n - 1))


with show_error(150):
    export(Sorter(net))
with show_error(150):
    export(Net(NumPyLevels.apply).double())

# %% [markdown]
# In both cases, export would need a number that a fake tensor does not have. The error is useful:
# an older tool, `torch.jit.trace`, records only the branch that the example takes, and uses it for
# all inputs.
#
# The next program was exported with eight images and without `dynamic_shapes`. We call it with
# nine.

# %%
vote("15", "batch-of-nine")

# %%
with quiet():
    for_eight = torch.export.export(net, (shown.images[:8],)).module()
with show_error():
    for_eight(shown.images[:9])

# %% [markdown]
# ### Checkpoint 2
#
# Write `forward` without an `if`, and run the cell again. `torch.where(condition, yes, no)` accepts
# a 0-dim condition. Both numbers should be 96%.


# %%
class BranchFree(Sorter):
    def forward(self, images):
        if images.max() > 1:
            images = images / 127.5 - 1
        return self.net(images)


camera = 127.5 * (held_out.images + 1)
with show_error(150):
    loaded = export(BranchFree(net)).module()
    print(f"images from the camera: {accuracy(loaded, camera, held_out.labels):.0%}")
    print(f"scaled images:          {accuracy(loaded, *held_out):.0%}")

# %% [markdown]
# <details><summary>Why</summary>
#
# `images = torch.where(images.max() > 1, images / 127.5 - 1, images)`. The program computes both
# sides and chooses one. `torch.cond` runs only one side.
#
# </details>

# %% [markdown]
# ## ONNX
#
# ONNX is a standard set of operators that runtimes for phones, browsers and microcontrollers
# understand. `torch.onnx.export` translates each ATen operation of an exported program. The *opset*
# is the version of the standard. From here on, we need only inference in float32. `check_onnx`
# calls `onnx.checker`, and `run_onnx` runs the file in ONNX Runtime, which shares no code with
# PyTorch.


# %%
def to_onnx(program, **options):
    with quiet():
        return torch.onnx.export(program, dynamo=True, opset_version=18, verbose=False, **options)


def agreement(one, other):
    """Return the share of images whose scores are all equal to four digits."""
    return torch.isclose(one, other, atol=1e-4).all(-1).double().mean().item()


images, labels = held_out.images.float(), held_out.labels
small_net = copy.deepcopy(net).float().eval()
onnx_net = check_onnx(to_onnx(export(small_net, images[:8])))
print(*(node.op_type for node in onnx_net.graph.node))
for n in (1, 400):
    share = agreement(run_onnx(onnx_net, images[:n]), small_net(images[:n]).detach())
    print(f"{n:>3} images: at least 99% agree: {share >= 0.99}")

# %% [markdown]
# `Gemm` is a matrix product with a bias. The Function appears as the operations of its `forward`.
# Why do we not require all 400 images to agree? The last digit of a sum depends on the order of its
# terms. If a hidden value is on the boundary between two levels, that digit decides which way it is
# *rounded*:

# %%
h = torch.tensor([0.5, 0.5 - 2**-25, 0.5 + 2**-23])
print("before:", [f"{v:.7f}" for v in h.tolist()])
print("after: ", [f"{v:.2f}" for v in Levels.apply(h, 4).tolist()])

# %% [markdown]
# So count the images that agree, or compare the predicted classes.

# %% [markdown]
# ## An operator of your own in ONNX
#
# *Extra: you need this section for exercise 4.*
#
# In the exported program, the custom operator is one node, and ONNX does not know its name:

# %%
operator_net = copy.deepcopy(small_net)
operator_net.levels = levels_op
operator_program = export(operator_net, images[:8])
try:
    to_onnx(operator_program)
except torch.onnx.OnnxExporterError as error:
    print(error.__cause__.__cause__)  # the first error of three

# %% [markdown]
# **Translate it** if ONNX's own operators can express it. A translation is a function that takes
# the node's arguments and creates ONNX nodes with `onnxscript`. It is a second implementation, so
# compare the two. For example, `Round` in ONNX rounds halves to even, as PyTorch does, but `round`
# in C does not.

# %%
from onnxscript import opset18 as op


def levels_in_onnx(x, n: int):
    top = float(n - 1)
    return op.Div(op.Round(op.Mul(op.Clip(x, 0.0, 1.0), top)), top)


table = {torch.ops.course.levels.default: levels_in_onnx}
translated = check_onnx(to_onnx(operator_program, custom_translation_table=table))
print(*(node.op_type for node in translated.graph.node))
share = agreement(run_onnx(translated, images), small_net(images).detach())
print(f"at least 99% agree: {share >= 0.99}")

# %% [markdown]
# **Name it** if the chip has an instruction for it. Then it should remain one node, in your own
# *domain*. You declare its signature (a schema), and the translation creates the node.

# %%
import onnx
from onnx import defs
from onnxscript.values import Op, Opset

schema = defs.OpSchema(
    "Levels",
    "course",
    1,
    inputs=[defs.OpSchema.FormalParameter("x", "T")],
    outputs=[defs.OpSchema.FormalParameter("y", "T")],
    type_constraints=[("T", ["tensor(float)"], "numbers")],
    attributes=[defs.OpSchema.Attribute("n", defs.OpSchema.AttrType.INT, "levels")],
)


def levels_node(x, n: int):
    return Op(Opset("course", 1), "Levels", schema)(x, n=n)


table = {torch.ops.course.levels.default: levels_node}
named = check_onnx(to_onnx(operator_program, custom_translation_table=table))
print(*(f"{node.domain}.{node.op_type}".strip(".") for node in named.graph.node))

# %% [markdown]
# `check_onnx` accepted this file. The next cell runs it in ONNX Runtime.

# %%
vote("15", "checker-runs")

# %%
with show_error():
    run_onnx(named, images)

# %% [markdown]
# The checker knows only standard operators. The runtime needs a C++ kernel with this name, or a
# *definition* in the file, written as an ONNX function:

# %%
definition = onnx.parser.parse_function("""
<opset_import: ["" : 18], domain: "course">
Levels <n> (x) => (y) {
    levels = Constant <value_int: int = @n> ()
    all = Cast <to = 1> (levels)
    zero = Constant <value_float = 0.0> ()
    one = Constant <value_float = 1.0> ()
    top = Sub(all, one)
    h = Clip(x, zero, one)
    scaled = Mul(h, top)
    whole = Round(scaled)
    y = Div(whole, top)
}
""")
named.functions.append(definition)
share = agreement(run_onnx(named, images), small_net(images).detach())
print(f"at least 99% agree: {share >= 0.99}")

# %% [markdown]
# ## Fewer bits
#
# To store weights as integers, you choose a *scale* $s$ and a *zero point* $z$ for each row of a
# matrix, and store
#
# $$q = \operatorname{clamp}\!\bigl(\operatorname{round}(x / s) + z,\; q_{\min},\; q_{\max}\bigr),
# \qquad x \approx s\,(q - z) .$$
#
# Fake quantization in lesson 05 computed the same values, but here we store the integers.
# Quantization methods differ in how they choose the scales of the *activations*:
#
# | quantize | scales of the activations |
# | --- | --- |
# | weights only | none, because activations stay floats |
# | dynamically | from each input, at run time |
# | statically | from sample inputs, in advance (*calibration*) |
# | with quantization-aware training (QAT) | learned, like the scales of the weights |
#
# For modules, use torchao's `quantize_`. It replaces the weights of linear layers with integers and
# scales.

# %%
with quiet():
    from torchao.quantization import (
        Int8DynamicActivationInt8WeightConfig,
        Int8WeightOnlyConfig,
        IntxWeightOnlyConfig,
        quantize_,
    )

configs = {
    "8 bits, weights only": Int8WeightOnlyConfig(),
    "8 bits, dynamic": Int8DynamicActivationInt8WeightConfig(),
    "4 bits, weights only": IntxWeightOnlyConfig(weight_dtype=torch.int4),
    "2 bits, weights only": IntxWeightOnlyConfig(weight_dtype=torch.int2),
}
print(f"float32               {stored_bytes(small_net):>6} bytes")
for name, config in configs.items():
    model = copy.deepcopy(small_net)
    with quiet():
        quantize_(model, config)
    print(f"{name:21} {stored_bytes(model):>6} bytes, {accuracy(model, images, labels):.0%} right")

# %% [markdown]
# The model is still Python, so the Function works as before. Here, eight bits take less than a
# third of the memory and cost no accuracy. Four and two bits take as much memory as eight, because
# an unpacked value occupies a whole byte. Also measure the time: fewer bits are faster only with a
# backend that computes in integers.
#
# For exported programs, use torchao's *pt2e* ("PyTorch 2 export"). `prepare_pt2e` and
# `convert_pt2e` quantize statically. With `prepare_qat_pt2e`, you train the *exported* program, and
# you already know what this means for a Function:

# %%
with quiet():
    from torchao.quantization.pt2e.quantize_pt2e import prepare_qat_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    quantizer = x86.X86InductorQuantizer().set_global(
        x86.get_default_x86_inductor_quantization_config(is_qat=True)
    )

for name in ("Function", "plain autograd"):
    model = copy.deepcopy(small_net)
    model.levels = spellings[name]
    with quiet():
        trained = prepare_qat_pt2e(export(model, images[:8]).module(), quantizer)
    cross_entropy(trained(images), labels).backward()
    size = trained.get_parameter("first.weight").grad.norm()
    print(f"{name:15} norm of the gradient, first layer: {size:.1f}")

# %% [markdown]
# With the Function, the first layer gets no gradient, and again nothing warns you.

# %% [markdown]
# ## Names and versions
#
# *Reference: older names, and differences between versions.*
#
# | older name | today |
# | --- | --- |
# | `torch.ao.quantization`, `torch.quantization` | torchao |
# | `quantize_dynamic` | `quantize_` with `Int8DynamicActivationInt8WeightConfig` |
# | `QuantStub`, `prepare`, `convert`; `prepare_fx`, `convert_fx` | `prepare_pt2e`, `convert_pt2e` |
# | `prepare_qat`, `prepare_qat_fx` | `quantize_` with `QATConfig`, or `prepare_qat_pt2e` |
# | `torch.jit.trace`, `torch.jit.script` | `torch.export` |
#
# - In PyTorch 2.11, `backward` raises an error after a strict export with a hook on a tensor, and
#   `convert_pt2e` from torchao 0.18 silently quantizes nothing.
# - Since PyTorch 2.14, `torch.jit.script` raises an error for a Function. In earlier versions, it
#   calls Python.

# %% [markdown]
# ## Without Python
#
# *Reference: how to run a model from C++.*
#
# *AOTInductor* compiles an exported program ahead of time. Call
# `torch._inductor.aoti_compile_and_package(program, package_path="net.pt2")`. A C++ program that
# loads the result needs `libtorch`, but no Python.
#
# The result has no backward pass. It calls the kernel of a custom operator, so you must write this
# kernel in C++ (lesson 14).

# %% [markdown]
# ## Do you know it?
#
# Answer ten questions. If an answer is wrong, you see why and can try again.

# %%
knowledge_check("15")

# %% [markdown] tags=["cheat-sheet"]
# ## Summary
#
# ```python
# program = torch.export.export(net, (example,), dynamic_shapes=({0: Dim("batch")},))
# torch.export.save(program, "net.pt2")
# shipped = torch.export.load("net.pt2").module()
# assert torch.allclose(shipped(x), net(x))        # other inputs and sizes than the example
# # and if somebody will differentiate it: compare the gradients, too
#
# def surrogate_in_the_graph(x):                   # survives with its gradient
#     return (q(x) - h(x)).detach() + h(x)
#
# file = torch.onnx.export(program, dynamo=True, custom_translation_table={op.default: translation})
# onnx.checker.check_model(file.model_proto)       # checks the format
# onnxruntime.InferenceSession(...).run(...)       # run it, and compare the values
# ```
#
# | | |
# | --- | --- |
# | a Function, exported | the operations of its forward; `backward` is dropped silently |
# | a hook | is dropped, too; a hook on a parameter is lost when you save |
# | inference only | nothing is lost |
# | training, or pt2e QAT | use `detach`, or a custom operator with `register_autograd` |
# | custom operator | one node; register or translate it wherever you load the file |
# | `if` on a number, NumPy | raises; use `torch.where`, `torch.cond`, or a custom operator |
# | example input | its sizes are fixed unless `dynamic_shapes` declares them |
# | ONNX | translate, or define a named node; the checker does not run the file |
# | with a quantizer inside | last digits can change a level: compare shares and classes |
# | TorchScript | deprecated; a trace freezes branches and cannot save a Function |
# | quantization | `quantize_` for modules, pt2e for programs; measure bytes, accuracy and time |
# | without Python | AOTInductor, for inference |

# %% [markdown]
# ## Where next
#
# In [the exercises of this lesson](../exercises/15_ship_it.ipynb), you ship a model that contains a
# Function, and you prove that its values and gradients are right.
#
# This was the last lesson. Now run `autograd-course check module:Function` on your own Function.
# The page [From a formula to CI](../docs/from_formula_to_ci.md) shows how to test it.

# %% [markdown]
# ## The whole course
#
# *Extra: for readers who have finished all lessons.*
#
# Try to answer these questions without looking anything up.

# %%
knowledge_check("course")

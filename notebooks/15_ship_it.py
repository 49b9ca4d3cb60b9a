# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/15_ship_it.ipynb)
#
# # 15 · Ship it
#
# **You will** take a trained net that holds a custom Function out of Python, by every road that
# PyTorch maintains today, and measure what arrives: the numbers, the gradients, the bytes.
#
# **You will learn** what `torch.export` keeps of a Function and what it drops without a word, how
# an operator of your own gets into an ONNX file, what the quantization tools of today do, and how
# to prove that what you shipped is what you trained.
#
# **You need** lesson 01, and of lesson 05 the straight-through estimator. Custom operators are
# lesson 12's; here they are repeated in one cell.
#
# **It takes** about 55 minutes; the *extra* sections take another 30. The exercises come after it.

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
import subprocess
import sys
import tempfile
import warnings
from contextlib import redirect_stderr, suppress
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.autograd import Function, grad
from torch.export import Dim
from torch.nn.functional import cross_entropy

from autograd_course import diagnose
from autograd_course.functions import RoundSTE
from autograd_course.lesson import (
    BLUE,
    GRAY,
    ORANGE,
    check_onnx,
    figure,
    first_sentence,
    note,
    predict,
    quiet,
    require_packages,
    run_onnx,
    split_digits,
    stored_bytes,
)
from autograd_course.visualize import compare_flows, knowledge_check

require_packages()  # says what to install if a package that only this lesson needs is missing

# %% [markdown]
# ## A net that stops learning
#
# A letter sorter reads handwritten digits with a small camera. Its chip looks activations up in a
# table of four entries, so each hidden value is to be one of four levels, 0, ⅓, ⅔ and 1. Rounding
# has no usable gradient, so the activation is a Function with a straight-through estimator: forward
# clamps and rounds, backward answers as the clamp alone would. `diagnose` tests it against that
# declared surrogate, and finds nothing.


# %%
class Levels(Function):
    """y = x clamped to [0, 1], on n levels; declared surrogate: the clamp."""

    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward((x >= 0) & (x <= 1))
        return (x.clamp(0, 1) * (n - 1)).round() / (n - 1)

    @staticmethod
    def backward(ctx, grad_output):
        (inside,) = ctx.saved_tensors
        return grad_output * inside, None


x = torch.tensor([-0.4, 0.2, 0.6, 1.3], dtype=torch.float64)
print(diagnose(Levels, (x, 4), surrogate=lambda x, n: x.clamp(0, 1)))

# %% [markdown]
# The net has two hidden layers, and is trained on handwritten digits (8 × 8 pixels; 400 of the
# 1797 are held out). In float64, so that the run is the same on every machine.


# %%
class Net(nn.Module):
    def __init__(self, levels):
        super().__init__()
        self.levels = levels
        self.first, self.second = nn.Linear(64, 32), nn.Linear(32, 32)
        self.last = nn.Linear(32, 10)

    def forward(self, images):
        hidden = self.levels(self.first(images), 4)
        return self.last(self.levels(self.second(hidden), 4))


def train(net, images, labels, steps=100, rate=0.005):
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        loss = cross_entropy(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def right(net, images, labels):
    with torch.no_grad():
        return (net(images).argmax(-1) == labels).double().mean().item()


shown, held_out = (data._replace(images=data.images.double()) for data in split_digits())
torch.manual_seed(0)
net = Net(Levels.apply).double()
train(net, *shown)
print(f"right among held-out digits: {right(net, *held_out):.0%}")

# %% [markdown]
# The sorter's program is not to need our Python files. `torch.export` makes one file of a model and
# an example input; `Dim("batch")` says that the first axis of the images may have any length. Load
# it as the sorter would (`.module()` makes of a program something to call), and compare.
#
# (`quiet()` holds back what PyTorch and torchao warn about in their *own* code. Each message that
# it holds stands in its source, with the reason; any other comes through.)

# %%
shelf = tempfile.TemporaryDirectory()  # what is shipped; gone when the kernel ends
folder = Path(shelf.name)
any_batch = ({0: Dim("batch")},)

with quiet():
    program = torch.export.export(net, (shown.images[:8],), dynamic_shapes=any_batch)
    torch.export.save(program, folder / "net.pt2")
    shipped = torch.export.load(folder / "net.pt2").module()

print("the same scores, bit for bit:", torch.equal(shipped(held_out.images), net(held_out.images)))
print(f"right among held-out digits:  {right(shipped, *held_out):.0%}")

# %% [markdown]
# Bit for bit. So it is delivered, to sorters in which the camera turns out to be mounted sideways.
# No harm: the makers had thought of drift, and let each sorter learn on from 200 labeled images of
# its own. The same is tried in the laboratory, with the model that was exported:


# %%
def sideways(data):
    return data._replace(images=data.images.reshape(-1, 8, 8).rot90(1, (1, 2)).reshape(-1, 64))


turned, turned_held_out = sideways(shown), sideways(held_out)
print(f"on sideways images, before: {right(shipped, *turned_held_out):.0%}")

in_the_lab = copy.deepcopy(net)
lab_losses = train(in_the_lab, turned.images[:200], turned.labels[:200])
sorter_losses = train(shipped, turned.images[:200], turned.labels[:200])
print(f"trained on in the lab:      {right(in_the_lab, *turned_held_out):.0%}")
print(f"trained on in the sorter:   {right(shipped, *turned_held_out):.0%}")

# %% jupyter={"source_hidden": true}
with figure(columns=2, height=3.2) as (seen, learned):
    tiles = torch.full((17, 44), float("nan"), dtype=torch.float64)
    for k in range(5):
        for row, data in ((0, held_out), (9, turned_held_out)):
            tiles[row : row + 8, 9 * k : 9 * k + 8] = data.images[k].reshape(8, 8)
    seen.imshow(tiles, cmap="gray_r")
    seen.set(title="seen in the lab (above), by the sorter (below)")
    seen.axis("off")
    learned.plot(sorter_losses, color=ORANGE, linestyle="--")
    learned.plot(lab_losses, color=BLUE)
    learned.set(title="learning on, from the same weights", xlabel="step", ylabel="loss")
    note(learned, "in the sorter", (55, sorter_losses[55] + 0.35), ORANGE)
    note(learned, "in the lab", (35, lab_losses[35] + 0.3), BLUE)

# %% [markdown]
# The same numbers, the same data, the same optimizer. The loss does fall in the sorter, so whoever
# looks at the loss alone will blame the 200 images. Look at the gradients:

# %%
for place, model in (("lab", in_the_lab), ("sorter", shipped)):
    for layer in ("first", "second", "last"):
        arrives = model.get_parameter(f"{layer}.weight").grad.any()
        print(f"{place:7} {layer:7} layer: {'a gradient' if arrives else 'only zeros'}")

# %% [markdown]
# Below the last rounding, the sorter's net gets a gradient of zeros. Export kept the forward of our
# Function to the last bit, and dropped its backward. Nothing warned.

# %% [markdown]
# ## The whole thing, working
#
# The same surrogate, written in plain autograd (lesson 05): $h + \text{detach}(q - h)$, with $h$
# the clamp and $q$ its rounding. The weights are the trained ones.


# %%
def straight(x, n):
    h = x.clamp(0, 1)
    q = (h * (n - 1)).round() / (n - 1)
    return (q - h).detach() + h


def export(model, example=shown.images[:8]):
    with quiet():
        return torch.export.export(model, (example,), dynamic_shapes=any_batch)


plain_net = copy.deepcopy(net)
plain_net.levels = straight
torch.export.save(export(plain_net), folder / "plain.pt2")
with quiet():
    shipped = torch.export.load(folder / "plain.pt2").module()

print("the same scores:", torch.allclose(shipped(held_out.images), net(held_out.images)))
train(shipped, turned.images[:200], turned.labels[:200])
print(f"trained on in the sorter: {right(shipped, *turned_held_out):.0%}")

# %% [markdown]
# Export, save, load, compare: four steps, and one more that the first sorter lacked. *If what you
# ship is to be differentiated, compare the gradients too.* Why does one spelling travel and the
# other not?

# %% [markdown]
# ## What the graph holds
#
# `torch.export` runs the model once on *fake tensors*, which have shapes and dtypes and no numbers
# (lesson 12), and writes down each ATen operation that PyTorch executes: ATen is the library of
# operations underneath `torch`. What remains is a list:


# %%
def operations(program):
    """Their names, without library and overload: "linear" for aten.linear.default."""
    called = [node.target for node in program.graph.nodes if node.op == "call_function"]
    return [str(target).split(".")[1] for target in called]


print("with the Function: ", *operations(program))
print("in plain autograd: ", *operations(export(plain_net)))

# %% [markdown]
# A Function is Python that calls operations. Its forward was executed, so its operations are in
# the list; even the mask is computed (`ge le __and__`), though nothing reads it any more. `ctx` is
# not in the list, nor is what `backward` would have done with it. When the loaded program is
# differentiated, autograd does what it does with any list of operations:
#
# $$\text{eager:}\quad \frac{\partial L}{\partial x} := h'(x)\,\frac{\partial L}{\partial y}
# \qquad\qquad\text{exported:}\quad \frac{\partial L}{\partial x} = q'(x)\,\frac{\partial L}
# {\partial y} = 0 .$$
#
# `detach`, on the other hand, *is* an operation. It stands in the second list, and cuts there what
# it cut here.
#
# A hook is Python beside the operations, as `backward` is, and is dropped as silently: one that
# forward puts on a tensor (`y.register_hook`) at the export, with `strict=True` too. (Of PyTorch
# 2.11's strict export there, `backward` raises.) One on a parameter goes later. `program.module()`
# holds the model's own parameters, so there it still fires, and a test in the same process passes;
# the file holds the numbers alone.
#
# See it flow. The loss is $(\text{levels}(x) \cdot w)^2$, as it is and exported. Step with → and ←.


# %%
class Loss(nn.Module):
    def forward(self, x, w):
        return (Levels.apply(x, 4) * w) ** 2


x, w = torch.tensor(0.6), torch.tensor(3.0)
with quiet():
    exported_loss = torch.export.export(Loss(), (x, w)).module()

compare_flows({"eager": Loss(), "exported": exported_loss}, x, w)

# %% [markdown]
# **Common belief: "`strict=True` knows `autograd.Function`, and keeps it."** With that flag the
# model's Python is read by the compiler's front end instead of being run, and it does know a
# Function when it meets one. Ask the result for its gradient:

# %%
for strict in (False, True):
    with quiet():
        exported_loss = torch.export.export(Loss(), (x, w), strict=strict).module()
    leaf = x.clone().requires_grad_()
    (found,) = grad(exported_loss(leaf, w), leaf)
    print(f"strict={strict!s:6} gradient of x: {found.item():.0f}")
leaf = x.clone().requires_grad_()
print(f"eager        gradient of x: {grad(Loss()(leaf, w), leaf)[0].item():.0f}")

# %% [markdown]
# **Common belief: "only estimators suffer. My backward is the true gradient, so autograd finds the
# same."** In exact arithmetic. But people write Functions where the recorded derivative is *not
# good enough*: to define a gradient at a kink, to avoid $0 \cdot \infty$, to save memory. A norm,
# for example, whose gradient at the origin is declared to be 0:


# %%
class Norm(Function):
    """r = ‖x‖ over the last axis; ∂L/∂x = x/r · ∂L/∂r, and 0 at the origin."""

    @staticmethod
    def forward(ctx, x):
        r = x.square().sum(-1, keepdim=True).sqrt()
        ctx.save_for_backward(x, r)
        return r

    @staticmethod
    def backward(ctx, grad_output):
        x, r = ctx.saved_tensors
        return grad_output * x / r.clamp(min=1e-12)


class Length(nn.Module):
    def forward(self, x):
        return Norm.apply(x)


points = torch.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
with quiet():
    exported_length = torch.export.export(Length(), (points,)).module()
for name, length in (("eager", Length()), ("exported", exported_length)):
    (found,) = grad(length(points).sum(), points)
    print(f"{name:9} {[round(v, 1) for v in found.flatten().tolist()]}")

# %% [markdown]
# One point at the origin, and the next step of the optimizer fills the net with `nan`.
#
# ### Checkpoint 1
#
# Gradient reversal (lesson 09): forward returns $x$ unchanged, backward $-g$. A domain classifier
# sits behind it, in a model that is exported and trained on in the field. The gradient that arrives
# at the classifier's input is 3. What arrives in front of the exported reversal?


# %%
class Reverse(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return -grad_output


class Reversed(nn.Module):
    def forward(self, x):
        return 3 * Reverse.apply(x)


leaf = torch.tensor([1.0], requires_grad=True)
with quiet():
    exported_reversal = torch.export.export(Reversed(), (leaf.detach(),)).module()

predict(..., grad(exported_reversal(leaf), leaf)[0])

# %% [markdown]
# <details><summary>Why</summary>
#
# 3. The list holds a `view_as` and a product, whose derivative is 3. The sign is in `backward`, and
# stayed at home: the features are now trained to *help* the domain classifier.
#
# </details>

# %% [markdown]
# ## Three ways to carry a gradient
#
# The third way is for code that no list of operations can hold: the chip vendor's own library, say,
# which here is played by NumPy. Lesson 12 made such code a *custom operator*: a name in PyTorch's
# registry, with one registration for its numbers (the type hints are its signature), one for its
# shapes (`register_fake`), and one for its gradient.


# %%
@torch.library.custom_op("course::levels", mutates_args=())
def levels_op(x: torch.Tensor, n: int) -> torch.Tensor:
    return torch.from_numpy(np.rint(x.detach().numpy().clip(0, 1) * (n - 1)) / (n - 1))


@levels_op.register_fake
def _(x, n):
    return torch.empty_like(x)


def setup_context(ctx, inputs, output):
    x, _ = inputs
    ctx.save_for_backward((x >= 0) & (x <= 1))


def backward(ctx, grad_output):
    (inside,) = ctx.saved_tensors
    return grad_output * inside, None


levels_op.register_autograd(backward, setup_context=setup_context)

# %% [markdown]
# The three spellings, each with the trained weights, exported, saved, and loaded; then one backward
# pass. Beside the numbers, how the activation appears in the list.

# %%
spellings = {"Function": Levels.apply, "plain autograd": straight, "custom operator": levels_op}
print(f"{'':16} same scores   first layer learns   the activation is")
for name, spelling in spellings.items():
    model = copy.deepcopy(net)
    model.levels = spelling
    program = export(model)
    torch.export.save(program, folder / f"{name}.pt2")
    with quiet():
        loaded = torch.export.load(folder / f"{name}.pt2").module()
    same = torch.allclose(loaded(held_out.images), net(held_out.images))
    cross_entropy(loaded(turned.images), turned.labels).backward()
    learns = bool(loaded.get_parameter("first.weight").grad.any())
    _, *after = operations(program)  # the first product, then the activation, then the next product
    print(f"{name:16} {same!s:13} {learns!s:20}", *after[: after.index("linear")])

# %% [markdown]
# The custom operator is one node. What it computes is not in the file, so it must be registered
# wherever the file is loaded. In a Python that has not run the cell above:

# %%
path = folder / "custom operator.pt2"
elsewhere = subprocess.run(
    [sys.executable, "-c", f"import torch; torch.export.load({str(path)!r})"],
    capture_output=True,
    text=True,
)
print("it loads:", elsewhere.returncode == 0)
print("it misses course.levels:", "failed to resolve torch.ops.course.levels" in elsewhere.stderr)

# %% [markdown]
# | | numbers | gradient | what the other side needs |
# | --- | --- | --- | --- |
# | Function | kept | autograd's own, of the recorded forward | nothing |
# | plain autograd, `detach` | kept | kept | nothing |
# | custom operator | kept | kept, as registered | the registration, or a translation |
#
# If what is shipped will only ever *predict*, the Function is the simplest, and right. If it is
# trained on, or quantized by a tool that trains (below), it is the wrong spelling.

# %% [markdown]
# ## What export refuses
#
# A list of operations has no `if`, and no NumPy. The camera delivers gray values from 0 to 255, so
# the sorter's program is to scale them; unless somebody has done so before:


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
    def forward(ctx, x, n):
        return torch.from_numpy(np.rint(x.detach().numpy().clip(0, 1) * (n - 1)) / (n - 1))


def refusal(model):
    try:
        with redirect_stderr(io.StringIO()):  # export also prints the list as far as it got
            export(model)
    except Exception as error:
        return f"{type(error).__name__}: {first_sentence(error)}"
    return "exported"


print(refusal(Sorter(net)))
print(refusal(Net(NumPyLevels.apply).double()))

# %% [markdown]
# Both times export would have had to look at a number that a fake tensor does not have. That is a
# feature: the alternative, which we shall meet, is to take the example's branch and freeze it.
#
# The example is a promise, too. **Common belief: "the example input only shows the way; any other
# batch will do."** Only where that was said:

# %%
with quiet():
    for_eight = torch.export.export(net, (shown.images[:8],)).module()
try:
    for_eight(shown.images[:9])
except AssertionError as error:
    print(error)

# %% [markdown]
# ### Checkpoint 2
#
# Yours to finish: the same sorter without an `if`. `torch.where(condition, one, other)` takes a
# condition of no axes. Change `forward` and run the cell again.


# %%
class BranchFree(Sorter):
    def forward(self, images):
        if images.max() > 1:
            images = images / 127.5 - 1
        return self.net(images)


camera = 127.5 * (held_out.images + 1)
print(said := refusal(BranchFree(net)))
if said == "exported":
    loaded = export(BranchFree(net)).module()
    both = [right(loaded, images, held_out.labels) for images in (camera, held_out.images)]
    print(f"from the camera {both[0]:.0%}, scaled before {both[1]:.0%}")

# %% [markdown]
# <details><summary>Why</summary>
#
# `images = torch.where(images.max() > 1, images / 127.5 - 1, images)`. Both sides are computed and
# one is chosen: operations on tensors, no decision in Python. Where one side is expensive, or must
# not be computed, `torch.cond` records both branches as sub-graphs. (Better still is to demand one
# range of the caller: a guess from the brightest pixel fails on a dark picture.)
#
# </details>

# %% [markdown]
# ## ONNX
#
# An ONNX file is such a list in another vocabulary, that of a standard which runtimes for phones,
# browsers and microcontrollers read. `torch.onnx.export` takes an exported program and translates
# each ATen operation. (Of a module it makes one first.) The edition of the vocabulary, its *opset*,
# is number 18 here, the one that PyTorch's translations are written in. From here on we deploy, in
# float32; nobody will ask for gradients.
#
# `check_onnx` hands the file to `onnx.checker`; `run_onnx` does that too and runs it in ONNX
# Runtime, an engine that shares no code with PyTorch.


# %%
def to_onnx(program, **options):
    with quiet():
        return torch.onnx.export(program, dynamo=True, opset_version=18, verbose=False, **options)


images, labels = held_out.images.float(), held_out.labels
small_net = copy.deepcopy(net).float().eval()
onnx_net = check_onnx(to_onnx(export(small_net, images[:8])))
print(*(node.op_type for node in onnx_net.graph.node))

# %% [markdown]
# `Gemm` is the matrix product with its bias. The Function is there as what its forward did: clip,
# multiply, round, divide. And the numbers, for one image and for four hundred:


# %%
def agree(one, other):
    """Whether all scores of at least 99 images in 100 are equal to four digits."""
    return bool((torch.isclose(one, other, atol=1e-4).all(-1)).double().mean() >= 0.99)


for n in (1, 400):
    scores = run_onnx(onnx_net, images[:n])
    print(f"{n:>3} images: agree {agree(scores, small_net(images[:n]).detach())},", end=" ")
    print(f"{(scores.argmax(-1) == labels[:n]).double().mean():.0%} right")

# %% [markdown]
# Why not demand all four hundred? **Common belief: "two correct runtimes differ in the last digit
# only."** The last digit of a sum of 64 products depends on the order of its terms, and behind the
# sum comes a *rounding*. Where a hidden value lies on the boundary of two levels, its last digit
# decides between them, and the scores differ by something you can see:

# %%
h = torch.tensor([0.5, 0.5 - 2**-25, 0.5 + 2**-23])
print("before:", [f"{v:.7f}" for v in h.tolist()])
print("after: ", [f"{v:.2f}" for v in Levels.apply(h, 4).tolist()])

# %% [markdown]
# So for a net with a quantizer inside, state beforehand what "equal" means: a share of images, or
# equal decisions; and test on many inputs. The largest difference over all inputs is the wrong
# measure.

# %% [markdown]
# ## An operator of your own in ONNX
#
# *Extra: you need this section for exercise 4. In short: give the operator a translation or a meaning, and
# run the file. The checker alone proves nothing.*
#
# The custom operator is one node of the exported program, with a name that ONNX has never heard.

# %%
operator_net = copy.deepcopy(small_net)
operator_net.levels = levels_op
operator_program = export(operator_net, images[:8])
try:
    to_onnx(operator_program)
except torch.onnx.OnnxExporterError as error:
    found = next(line for line in str(error).splitlines() if "No ONNX function" in line)
    print(found.partition(": ")[2].partition(". ")[0])

# %% [markdown]
# **Translate it.** If ONNX's vocabulary can say it, write the sentence, once: a function that is
# called with the node's arguments and builds ONNX nodes. `onnxscript` spells them as calls.

# %%
from onnxscript import opset18 as op


def levels_in_onnx(x, n: int):
    top = float(n - 1)
    return op.Div(op.Round(op.Mul(op.Clip(x, 0.0, 1.0), top)), top)


table = {torch.ops.course.levels.default: levels_in_onnx}
translated = check_onnx(to_onnx(operator_program, custom_translation_table=table))
print(*(node.op_type for node in translated.graph.node))
print("agrees:", agree(run_onnx(translated, images), small_net(images).detach()))

# %% [markdown]
# The translation is a second implementation, and nobody but you compares it with the first. Mind
# the conventions: ONNX's `Round` takes halves to the even neighbor, as PyTorch does; the `round` of
# C does not.
#
# **Or name it.** If the chip has an instruction for it, it should stay one node, in a *domain* of
# your own. ONNX asks for its signature (a schema), and the translation emits the node.

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
# **Common belief: "`onnx.checker` passed, so it runs."** It passed: the cell above calls it. The
# checker knows the rules of the standard's own operators; of a foreign domain it assumes the best.

# %%
try:
    run_onnx(named, images)
except Exception as error:
    print(first_sentence(error))

# %% [markdown]
# The runtime needs a kernel of that name (a C++ library, given to its session), or a *meaning* in
# the file: an ONNX function, a sub-graph with a name. A runtime that has the kernel may use it,
# every other expands the function.

# %%
meaning = onnx.parser.parse_function("""
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
named.functions.append(meaning)
print("agrees:", agree(run_onnx(named, images), small_net(images).detach()))

# %% [markdown]
# ## TorchScript, as you find it
#
# *Reference: look here when you meet files or code from before `torch.export`.*
#
# Older code ships by `torch.jit`. *Tracing* runs the model on an example and writes the operations
# down, as export does, but with real numbers, so nothing stops it at an `if`. *Scripting* compiles
# the Python source. Both are deprecated and get no repairs; you will meet them in files. The
# sorter's preprocessing in small, with the course's `RoundSTE` (scripting wants a Function's source
# in a module, not in a notebook):


# %%
class Scaled(nn.Module):
    def forward(self, x):
        if x.max() > 1:
            x = x / 255
        return RoundSTE.apply(3 * x.clamp(0, 1)) / 3


with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    example = torch.tensor([0.2, 0.6])  # without the branch
    modules = {"eager": Scaled(), "traced": torch.jit.trace(Scaled(), example)}
    with suppress(RuntimeError):  # PyTorch 2.14 cannot script a Function any more
        modules["scripted"] = torch.jit.script(Scaled())
deprecated = (DeprecationWarning, FutureWarning)  # the latter from PyTorch 2.14 on
for kind in (deprecated, torch.jit.TracerWarning):
    print(next(first_sentence(w.message) for w in said if issubclass(w.category, kind)))


# %%
def saving(module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same once more
        try:
            module.save(folder / "script.pt")
        except RuntimeError as error:
            return first_sentence(error)
    return "saved"


bright = torch.tensor([51.0, 102.0, 255.0])
for name, module in modules.items():
    print(f"{name:9}", [round(v, 2) for v in module(bright).tolist()])
for name in list(modules)[1:]:
    print(f"{name:9} save: {saving(modules[name])}")

# %% [markdown]
# The trace has taken the example's side of the branch and left out the other: everything bright is
# now 1. It says so in a warning, once, among others. The script kept the branch. And each accepts
# the Function, runs it by calling back into Python, and finds out on `save` that a file cannot.
# (From PyTorch 2.14 on there is no script here: it refuses the Function at once.)
#
# | | torch.export | trace | script |
# | --- | --- | --- | --- |
# | `if` on a number | refuses | freezes, warns | keeps |
# | a Function | forward's operations | a Python call: runs, cannot be saved | the same (≤ 2.13) |
# | another batch size | only where it was said | unchecked | any |
# | state | maintained | deprecated | deprecated |

# %% [markdown]
# ## Fewer bits
#
# To store weights in integers, choose for each row of a matrix a *scale* $s$, and keep
#
# $$q = \operatorname{clamp}\!\bigl(\operatorname{round}(x / s) + z,\; q_{\min},\; q_{\max}\bigr),
# \qquad x \approx s\,(q - z) .$$
#
# The *zero point* $z$ is the integer that stands for 0; for weights it is mostly 0 itself
# (*symmetric*). This is lesson 05's fake quantization, but now the integer is what is kept. What
# remains to be decided is who chooses the scales of the *activations*, and when:
#
# | | scales of the weights | scales of the activations |
# | --- | --- | --- |
# | weights only | from the weights | none: they stay floats |
# | dynamic | from the weights | from each input, while it runs |
# | static | from the weights | from some inputs beforehand (*calibration*) |
# | quantization-aware training (QAT) | trained for, through fake quantization | the same |
#
# Today's tool for modules is torchao's `quantize_`: it exchanges the weights of linear layers, in
# place, for tensors that hold integers and scales.

# %%
with quiet():
    from torchao.quantization import (
        Int8DynamicActivationInt8WeightConfig,
        Int8WeightOnlyConfig,
        IntxWeightOnlyConfig,
        quantize_,
    )
    from torchao.quantization.qat import QATConfig


def quantized(config, model=small_net):
    model = copy.deepcopy(model)
    with quiet():
        quantize_(model, config)
    return model


models = {
    "float32": small_net,
    "8 bits, weights only": quantized(Int8WeightOnlyConfig()),
    "8 bits, dynamic": quantized(Int8DynamicActivationInt8WeightConfig()),
    "4 bits, weights only": quantized(IntxWeightOnlyConfig(weight_dtype=torch.int4)),
    "2 bits, weights only": quantized(IntxWeightOnlyConfig(weight_dtype=torch.int2)),
}
for name, model in models.items():
    print(f"{name:21} {stored_bytes(model):>6} bytes, {right(model, images, labels):.0%} right")

# %% [markdown]
# Our Function does not mind: the model is still Python, its forward runs as it did. Eight bits cost
# nothing here, and save almost three bytes of four (the biases and scales remain floats).
#
# **Common belief: "four bits take half of eight."** Read the column again. Unless a backend packs
# them, a value of four bits sits in a byte of its own, and one of two bits as well. Ask for bytes,
# not for bits.
#
# ### Checkpoint 3
#
# *Extra: practice for exercise 5, which quantizes a whole matrix. Here you quantize one weight by
# hand.*
#
# A row of weights, $(0.5, -1, 0.3)$, is stored in eight bits, symmetric: the largest magnitude
# becomes the largest integer. Which integer is kept for 0.3?

# %%
layer = nn.Linear(3, 1, bias=False)
layer.load_state_dict({"weight": torch.tensor([[0.5, -1.0, 0.3]])})

predict(..., quantized(Int8WeightOnlyConfig(), layer).weight.qdata[0, 2])

# %% [markdown]
# <details><summary>Why</summary>
#
# 38. The scale is 1/127.5 (two over 255 steps), so 0.3 becomes 38.25, and is rounded. What comes
# back is 38/127.5 ≈ 0.298.
#
# </details>

# %% [markdown]
# ### Static: export, observe, convert
#
# *Extra: for readers whose backend computes in integers, activations included.*
#
# Static quantization works on the exported program (*pt2e*, "PyTorch 2 export"), today in torchao.
# A *quantizer* knows what one backend can do, here that of x86 processors. `prepare_pt2e` puts an
# observer behind each tensor to be quantized, which notes the smallest and the largest value that
# passes; some inputs are run through; `convert_pt2e` puts pairs of quantize and dequantize in their
# places. (In PyTorch 2.11 torchao 0.18 puts none, and says nothing: look at the operations.)

# %%
with quiet():
    from torchao.quantization.pt2e.quantize_pt2e import (
        convert_pt2e,
        prepare_pt2e,
        prepare_qat_pt2e,
    )
    from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
        X86InductorQuantizer,
        get_default_x86_inductor_quantization_config,
    )


def x86(**options):
    chosen = get_default_x86_inductor_quantization_config(**options)
    return X86InductorQuantizer().set_global(chosen)


with quiet():
    observed = prepare_pt2e(export(small_net, images[:8]).module(), x86())
    observed(shown.images[:200].float())
    static = convert_pt2e(observed)
    static_program = export(static, images[:8])
print(*operations(static_program)[3:9], "…")
print(f"{right(static, images, labels):.0%} right")

# %% [markdown]
# The program still computes in floats: it dequantizes, multiplies, and quantizes again. What makes
# it fast is a backend that recognizes "dequantize, `linear`, quantize" and has a kernel of integers
# for it. ONNX has words for the pair, so the same program can go to ONNX Runtime.
#
# **Common belief: "converted, so it is small."** It has the integers, and keeps the floats as well,
# until the program is written to a file. There only what the operations read remains:


# %%
def weight_bytes(file):
    return sum(onnx.numpy_helper.to_array(tensor).nbytes for tensor in file.graph.initializer)


onnx_static = check_onnx(to_onnx(static_program))
print("float32, in memory:  ", stored_bytes(small_net), "bytes")
print("converted, in memory:", stored_bytes(static), "bytes")
print("weights in the file: ", weight_bytes(onnx_static), "bytes")
print(*(node.op_type for node in onnx_static.graph.node[3:7]), "…")
print("agrees:", agree(run_onnx(onnx_static, images), static(images).detach()))

# %% [markdown]
# ### Quantization-aware training
#
# *Extra: for readers whose model loses too much accuracy when its weights are rounded. In short:
# `quantize_` trains your module with its Functions, and pt2e trains the exported program without
# its backward.*
#
# With two bits the net had lost something. QAT trains with fake quantization in the forward pass,
# and a straight-through estimator behind it: torchao's rounding is a custom Function of the kind
# that you wrote in lesson 05. `quantize_` does it in two steps, around a training loop that is
# yours. (Right to the nearest 2%, since a training in float32 is not the same everywhere.)

# %%
two_bits = IntxWeightOnlyConfig(weight_dtype=torch.int2)
aware = copy.deepcopy(small_net)  # torchao's integers know float32, not float64
with quiet():
    quantize_(aware, QATConfig(two_bits, step="prepare"))
train(aware, shown.images.float(), shown.labels, steps=40, rate=0.002)
with quiet():
    quantize_(aware, QATConfig(two_bits, step="convert"))
for name, model in (("rounded", quantized(two_bits)), ("trained for", aware)):
    print(f"two bits, {name:12} {2 * round(50 * right(model, images, labels))}% right")

# %% [markdown]
# pt2e has a QAT too, `prepare_qat_pt2e`. It trains the *exported* program, and now you know what
# that means for a net with a Function in it. One step, with each spelling of the activation:

# %%
for name in ("Function", "plain autograd"):
    model = copy.deepcopy(small_net)
    model.levels = spellings[name]
    with quiet():
        trained = prepare_qat_pt2e(export(model, images[:8]).module(), x86(is_qat=True))
    cross_entropy(trained(images), labels).backward()
    learns = bool(trained.get_parameter("first.weight").grad.any())
    print(f"{name:15} first layer learns: {learns}")

# %% [markdown]
# The sorter once more, in a tool whose very purpose is to train. Nothing in its output says so.

# %% [markdown]
# ### The older names
#
# *Reference: look here when you meet one of these names.*
#
# Most of what you find written about this uses names that have moved. `torch.ao.quantization` still
# imports, and announces its end; new code goes to torchao.
#
# | `torch.ao.quantization` | `torchao` |
# | --- | --- |
# | `quantize_dynamic` | `quantize_`, with `Int8DynamicActivationInt8WeightConfig` |
# | `QuantStub`, `prepare`, `convert`: "eager mode" | `prepare_pt2e`, `convert_pt2e` |
# | `prepare_fx`, `convert_fx`: "FX mode" | `prepare_pt2e`, `convert_pt2e` |
# | `prepare_qat`, `prepare_qat_fx` | `quantize_` with `QATConfig`, or `prepare_qat_pt2e` |
# | `quantize_pt2e` | moved, to `torchao.quantization.pt2e` |
#
# (`torch.quantization`, without `ao`, is older still: the same under its first name.)

# %%
import torch.ao.quantization as older

with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    older.QuantStub()
    older.prepare(nn.Sequential(older.QuantStub(), nn.ReLU()).eval())
about = [first_sentence(w.message) for w in said if "torch.ao.quantization" in str(w.message)]
print(about[0] if about else "this PyTorch says nothing")

# %% [markdown]
# This course runs on a later PyTorch than the one that the message names, and the module is still
# there. An announced end is not a date; it is a reason to begin nothing new with it.

# %% [markdown]
# ## What it weighs and what it costs
#
# *Extra: for readers who want to compare all these nets, and to see how long they take on their
# machine.*
#
# Bytes, accuracy and time, side by side: one without the other two is no result. Of files the
# weights are counted, not what the format adds.

# %%
models |= {"2 bits, trained for": aware}
files = {"ONNX, float32": onnx_net, "ONNX, 8 bits static": onnx_static}
rows = {name: (stored_bytes(m), right(m, images, labels)) for name, m in models.items()}
for name, file in files.items():
    share = (run_onnx(file, images).argmax(-1) == labels).double().mean().item()
    rows[name] = (weight_bytes(file), share)

# %% jupyter={"source_hidden": true}
with figure(width=7.6, height=3.4) as (axes,):
    for place, (name, (size, share)) in enumerate(rows.items()):
        color = ORANGE if name.startswith("ONNX") else GRAY if name == "float32" else BLUE
        axes.barh(place, size / 1000, color=color)
        note(axes, f"{share:.0%} right", (size / 1000 + 0.15, place + 0.12), color)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.set(
        title="weights, in memory and in an ONNX file (orange)", xlabel="kilobytes", xlim=(0, 17)
    )

# %% [markdown]
# And time. It is your machine's, so it is not saved in this notebook: run the cell.


# %% tags=["nbval-ignore-output"]
from torch.utils.benchmark import Timer  # not earlier: it tells of a CUDA compiler without a GPU


def microseconds(call):
    call()
    return 1e6 * Timer("call()", globals={"call": call}).timeit(30).median


with torch.no_grad():
    for name, model in models.items():
        one, many = (microseconds(lambda m=model, n=n: m(images[:n])) for n in (1, 400))
        print(f"{name:21} one image {one:8.0f} µs, 400 images {many:8.0f} µs")

# %% [markdown]
# **Common belief: "eight bits are faster than thirty-two."** With this net on most machines they
# are not: eager PyTorch dequantizes before each product (weights only), or looks for the scale of
# each input first (dynamic). The tools are made for matrices a hundred times this size, and for
# backends that fuse the pieces: `torch.compile`, ONNX Runtime, a phone's. Measure on the machine,
# with the batch size, that you will serve with.

# %% [markdown]
# ## Without Python
#
# *Reference: look here when you want to run a model from C++.*
#
# *AOTInductor* compiles an exported program to a library of machine code, with the same compiler
# that `torch.compile` uses, ahead of time. A C++ program loads it and needs `libtorch` and no
# Python:
#
# ```cpp
# #include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#
# torch::inductor::AOTIModelPackageLoader net("net.pt2");
# std::vector<torch::Tensor> scores = net.run({images});
# ```
#
# A Function is compiled as what its forward did. A custom operator is a call of its kernel, so that
# kernel must be C++ then (lesson 14). There is no backward in the library; it is for inference.
#
# Compiling takes from twenty seconds to minutes, so the next cell does it only if you ask for it.
# (The course's tests do.)

# %%
compile_ahead = False  # True: needs a C++ compiler, and patience
if compile_ahead:
    with quiet():
        package = torch._inductor.aoti_compile_and_package(
            export(small_net, images[:8]), package_path=str(folder / "compiled.pt2")
        )
        compiled = torch._inductor.aoti_load_package(package)
    print("agrees:", agree(compiled(images), small_net(images).detach()))
else:
    print("not compiled: it takes a while; set compile_ahead = True")

# %% [markdown]
# ## Do you know it?
#
# Ten questions. A wrong answer explains itself; try again.

# %%
knowledge_check("15")

# %% [markdown] tags=["cheat-sheet"]
# ## Summary
#
# ```python
# program = torch.export.export(net, (example,), dynamic_shapes=({0: Dim("batch")},))
# torch.export.save(program, "net.pt2")
# shipped = torch.export.load("net.pt2").module()
# assert torch.allclose(shipped(x), net(x))        # on other inputs than the example, other sizes
# # and if it will be differentiated: the gradients too
#
# def surrogate_in_the_graph(x):                   # travels with its gradient
#     return (q(x) - h(x)).detach() + h(x)
#
# file = torch.onnx.export(program, dynamo=True, custom_translation_table={op.default: translation})
# onnx.checker.check_model(file.model_proto)       # the grammar
# onnxruntime.InferenceSession(...).run(...)       # the meaning: compare
# ```
#
# | | |
# | --- | --- |
# | a Function, exported | its forward, as operations; `backward` stays at home, in silence |
# | a hook | stays at home too; one on a parameter is lost with `save` |
# | inference only | nothing lost |
# | trained on, or pt2e QAT | write `detach`, or a custom operator with `register_autograd` |
# | custom operator | one node; whoever loads it must register it, or translate it |
# | `if` on a number, NumPy | refused; `torch.where`, `torch.cond`, a custom operator |
# | example input | a promise: what may vary must be said |
# | ONNX | translation, or a node with a meaning; the checker knows grammar, a run knows more |
# | with a quantizer inside | last digits become levels: compare shares and decisions |
# | TorchScript | trace freezes, neither saves a Function; deprecated |
# | quantization | `quantize_` for modules, pt2e for programs; bytes, accuracy and time together |
# | without Python | AOTInductor, for inference |

# %% [markdown]
# ## Where next
#
# [The exercises of this lesson](../exercises/15_ship_it.ipynb): ship a model that holds a Function,
# and prove that it arrived.
#
# This was the last lesson. What remains is to use it: take a Function of your own, or one from a
# library that you depend on, and run `autograd-course check module:Function` on it. Put
# `assert_gradients` into its test suite, so that the next change cannot undo what you proved. And
# when a paper says "we use a custom gradient", read its code with lesson 04 open: you know now what
# to ask.

# %% [markdown]
# ## The whole course
#
# *Extra: for readers who have finished all lessons.*
#
# Last, questions across all lessons: what you should be able to answer without looking it up.

# %%
knowledge_check("course")

# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/solutions/05_straight_through.ipynb)
#
# # 05 · The straight-through estimator: exercises
#
# Lesson 05 gave quantizers a gradient that is wrong on purpose, and said out loud which one. Here you write the common ones, and then train a net with one of them.
#
# **Given:** for every Function the formula of forward, and the differentiable function whose derivative backward is declared to return, its *surrogate*.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it.
#
# **Constraints for every exercise:**
#
# - forward is judged by its own formula, backward by the derivative of the surrogate. Both have to be exact: a gradient that is wrong by design is not one that is only roughly right.
# - `backward` is a formula that you write down, not a call of autograd.
# - Tensors that backward needs are kept by `ctx.save_for_backward`; numbers are attributes of `ctx`.
# - Each gradient has the shape and the dtype of its input when it leaves `backward`.
#
# 18 points, about 85 minutes (35 of them for the exercises with ★, which need an *extra* section).

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
        course = "autograd-course @ " + address
        pip = [sys.executable, "-m", "pip", "install", "--quiet", doctor, course]
        subprocess.run(pip, check=True)
    output.enable_custom_widget_manager()

# %% jupyter={"source_hidden": true}
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, one_hot

from autograd_course import diagnose, grade, hint, progress
from autograd_course.lesson import load_digits

# %% [markdown]
# ## How to work
#
# Write one class, grade it, and only then begin the next. `hint("sign-ste")` in a cell of its own gives a nudge, a second call the idea, a third nearly the answer.
#
# To look at a class of yours before you grade it, call the doctor with the surrogate declared:
# `diagnose(SignSTE, (torch.randn(3, 4),), surrogate=lambda x: x.clone())`. Without `surrogate=` it would hold your gradient against the true one, which is zero.

# %% [markdown]
# ## 1 · Sign, straight through (1 point · easy · 5 minutes)
#
# $$y = \begin{cases} +1 & x \ge 0 \\ -1 & x < 0 \end{cases} \qquad\text{surrogate:}\quad \tilde y = x$$
#
# A binary weight has two values, so the zero has to go to one side. Here it goes to +1. (`torch.sign` has a third value: it gives 0 at 0.)
#
# **Write** both methods. backward returns what it would return if forward had been the surrogate.
#
# **Constraint:** the output at exactly 0 is +1, whatever the sign of that zero, and the output has the dtype of `x`.


# %% nbgrader={"grade": false, "grade_id": "sign-ste", "locked": false, "schema_version": 3, "solution": true, "task": false}
class SignSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        return torch.where(x >= 0, 1.0, -1.0).to(x)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        return grad_output
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "sign-ste-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("sign-ste", SignSTE)

# %% [markdown]
# ## 2 · Sign, clipped straight-through ★ (2 points · easy · 7 minutes · needs "Where the gradient stops")
#
# The same forward, another surrogate:
#
# $$\tilde y = \min(\max(x, -1), 1)$$
#
# With the identity, a weight that has long been decided is pushed further and further out, and takes as long to come back. Here the gradient stops once $x$ has left the interval.
#
# **Write** both methods.
#
# **Constraint:** at exactly $x = -1$ and $x = 1$ the gradient still passes, as for `torch.clamp` in PyTorch 2.13.


# %% nbgrader={"grade": false, "grade_id": "clipped-sign", "locked": false, "schema_version": 3, "solution": true, "task": false}
class ClippedSignSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        ctx.save_for_backward(x.abs() <= 1)
        return torch.where(x >= 0, 1.0, -1.0).to(x)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        (inside,) = ctx.saved_tensors
        return grad_output * inside
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "clipped-sign-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("clipped-sign", ClippedSignSTE)

# %% [markdown]
# ## 3 · Round to a grid, straight through (2 points · easy · 5 minutes)
#
# $$y = \text{step} \cdot \operatorname{round}\!\left(\frac{x}{\text{step}}\right) \qquad\text{surrogate:}\quad \text{the same with } \operatorname{round}(v) \text{ replaced by } v$$
#
# `step` is a positive Python number. A number in the middle between two grid points goes to the even multiple, as `torch.round` has it.
#
# **Write** both methods. The surrogate is simpler than it looks.


# %% nbgrader={"grade": false, "grade_id": "round-ste", "locked": false, "schema_version": 3, "solution": true, "task": false}
class RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, step: float) -> Tensor:
        ### BEGIN SOLUTION
        return step * torch.round(x / step)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        ### BEGIN SOLUTION
        return grad_output, None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "round-ste-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("round-ste", RoundSTE)

# %% [markdown]
# ## 4 · Fake quantization with a learned step (4 points · hard · 20 minutes)
#
# $$y = s \cdot \operatorname{round}\bigl(\operatorname{clamp}(x / s,\ \text{low},\ \text{high})\bigr)$$
#
# | argument | what it is |
# | --- | --- |
# | `x` | a tensor of any shape |
# | `step` | $s > 0$, exercise 3's step, but now a tensor of one number (0-dim), learned like a weight |
# | `low`, `high` | the smallest and the largest level, Python numbers: −4 and 3 for three bits |
#
# "Fake", because $y$ is stored as a float, but takes only the values that the integers from `low` to `high` can express.
#
# **Surrogate:** the same formula, in which the *derivative* of the rounding is taken to be 1. Its value is not replaced: wherever the rounded level itself stands in a derivative, it stays rounded. The clamp is differentiated as it is, before the rounding. (For $y$ the order of the two makes no difference, since the bounds are integers. For the gradient it does: with `high` = 3 and $x/s = 3.3$ the clamp has cut something off, and nothing passes; after the rounding it would find 3, which is within the bounds.)
#
# **Write** both methods; forward returns $y$, backward one value for each of the four arguments. For the gradient of $s$, write $y$ as a product and differentiate both factors.
#
# **Constraints:** the gradient of $x$ still passes where $x/s$ is exactly `low` or `high`. The gradient of $s$ has the shape of $s$.
# (Published recipes scale the gradient of $s$ down further, for the optimizer's sake. That belongs into the training loop, not here.)


# %% nbgrader={"grade": false, "grade_id": "fake-quantize", "locked": false, "schema_version": 3, "solution": true, "task": false}
class FakeQuantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
        ### BEGIN SOLUTION
        ctx.save_for_backward(x, step)
        ctx.low, ctx.high = low, high
        return step * torch.round(x / step).clamp(low, high)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None, None]:
        ### BEGIN SOLUTION
        x, step = ctx.saved_tensors
        v = x / step
        inside = (v >= ctx.low) & (v <= ctx.high)
        by_step = torch.where(inside, v.round() - v, v.clamp(ctx.low, ctx.high))
        return grad_output * inside, (grad_output * by_step).sum(), None, None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "fake-quantize-grade", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
grade("fake-quantize", FakeQuantize)

# %% [markdown]
# ## 5 · Gumbel-softmax, soft ★ (3 points · medium · 15 minutes · needs "Soft")
#
# $$y = \operatorname{softmax}\!\left(\frac{\text{logits} + \text{noise}}{\tau}\right) \quad\text{over the last axis}$$
#
# The noise is drawn outside and passed in. That makes $y$ an ordinary function of its inputs, and its gradient can be tested: at fixed noise there is nothing random left.
#
# **Write** both methods. There is no surrogate here: what is asked for is the true gradient of the logits. `temperature` is $\tau$, a positive Python number. Noise is not learned, so it gets `None`, and so does the temperature. (The gradient of the noise equals that of the logits; to return it is not wrong either.)


# %% nbgrader={"grade": false, "grade_id": "gumbel-soft", "locked": false, "schema_version": 3, "solution": true, "task": false}
class GumbelSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits: Tensor, noise: Tensor, temperature: float) -> Tensor:
        ### BEGIN SOLUTION
        y = torch.softmax((logits + noise) / temperature, -1)
        ctx.save_for_backward(y)
        ctx.temperature = temperature
        return y
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        ### BEGIN SOLUTION
        (y,) = ctx.saved_tensors
        weighted = grad_output * y
        grad_logits = weighted - y * weighted.sum(-1, keepdim=True)
        return grad_logits / ctx.temperature, None, None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "gumbel-soft-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("gumbel-soft", GumbelSoftmax)

# %% [markdown]
# ## 6 · Gumbel-softmax, hard ★ (2 points · easy · 10 minutes · needs "Hard")
#
# Now forward decides: 1 at the largest entry of $\text{logits} + \text{noise}$ along the last axis, 0 elsewhere, in the dtype of the logits. At a tie one of the largest is chosen, not both.
#
# **Surrogate:** the soft sample of exercise 5, at the same noise and temperature.
#
# **Write** both methods.


# %% nbgrader={"grade": false, "grade_id": "gumbel-hard", "locked": false, "schema_version": 3, "solution": true, "task": false}
class HardGumbelSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits: Tensor, noise: Tensor, temperature: float) -> Tensor:
        ### BEGIN SOLUTION
        soft = torch.softmax((logits + noise) / temperature, -1)
        ctx.save_for_backward(soft)
        ctx.temperature = temperature
        return one_hot(soft.argmax(-1), soft.shape[-1]).to(soft)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        ### BEGIN SOLUTION
        (soft,) = ctx.saved_tensors
        weighted = grad_output * soft
        grad_logits = weighted - soft * weighted.sum(-1, keepdim=True)
        return grad_logits / ctx.temperature, None, None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "gumbel-hard-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("gumbel-hard", HardGumbelSoftmax)

# %% [markdown]
# ## 7 · A binary net on real digits (4 points · medium · 20 minutes)
#
# `load_digits` returns 1797 handwritten digits of 8×8 pixels, with values from −1 to 1. We shuffle the images, because the same person wrote neighboring ones.

# %%
images, labels = load_digits()
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
images, labels = images[order].float(), labels[order]
print("images:", tuple(images.shape), " labels:", tuple(labels.shape))

# %% [markdown]
# The layer is given. It owns real-valued, *latent* weights, which the optimizer changes in small steps; what forward multiplies with are their signs. It has no bias, and it uses *your* `ClippedSignSTE`: solve exercise 2 first.


# %%
class BinaryLinear(nn.Module):
    """y = x sign(W)ᵀ, where W holds the latent weights."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-0.1, 0.1))

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, ClippedSignSTE.apply(self.weight))


# %% [markdown]
# **Write** `train_binary_net(images, labels)`: build a net, train it, return it. `images` has shape `(n, 64)`, `labels` `(n,)`; the net is called with images and returns scores of shape `(n, 10)`, the largest for the digit that it believes in.
#
# **Constraints:** the grader trains it on 1397 digits, once, and then looks at three things.
#
# - Every matrix product of the net's forward uses weights of −1 and +1 only. The grader looks at the products that really run, not at your parameters; normalization layers may have real-valued parameters.
# - The weights were learned: gradients other than zero arrived at them.
# - At least 90% of 400 digits that it has not seen are right. (Guessing gives 10%.)
#
# It has 30 seconds on the CPU; a net of the lesson's size takes about one. A net that is an `nn.Module` is put into `eval()` mode before it is asked.
#
# Before you grade, try it in a cell of your own, on a split of your own:
#
#     net = train_binary_net(images[:1400], labels[:1400]).eval()
#     print((net(images[1400:]).argmax(1) == labels[1400:]).float().mean())


# %% nbgrader={"grade": false, "grade_id": "binary-digits", "locked": false, "schema_version": 3, "solution": true, "task": false}
def train_binary_net(images: Tensor, labels: Tensor) -> nn.Module:
    ### BEGIN SOLUTION
    net = nn.Sequential(
        BinaryLinear(64, 64),
        nn.BatchNorm1d(64),
        nn.ReLU(),
        BinaryLinear(64, 10),
        nn.BatchNorm1d(10),
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(100):
        loss = cross_entropy(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "binary-digits-grade", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
grade("binary-digits", train_binary_net)

# %% [markdown]
# Two experiments for when it has passed (points once earned stay). Return `grad_output * 0` from the backward of `ClippedSignSTE`, which is the true gradient, and grade the net again: what is left of the accuracy, and who earned it?
# Then try `SignSTE` in the layer. On this small problem, does the clip make a difference?
#
# ## In words
#
# Of the gradients that you wrote, only that of the soft sample is true. The others are biased: they point where the surrogate falls, not where the loss falls. That this trains at all is the subject of the essay at the end of lesson 05's knowledge check: when does a biased estimator still train, and when does the bias hurt?
# The essay is not graded. `knowledge_check("05")` in the lesson opens it, with a rubric to compare your answer with.

# %% [markdown]
# ## Where you are
#
# The table below comes from your progress file, so it also counts what you solved on another day.

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# When all seven are passed, you can give any step function a gradient, say which one it is, and test it. Lesson 06 differentiates twice: what backward itself must look like so that a gradient of the gradient comes out right.
# (If your hard Gumbel-softmax saves the soft sample, a penalty on its gradient would be dropped in silence. Why, you will see there.)

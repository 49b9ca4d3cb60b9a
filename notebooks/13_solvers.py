# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/13_solvers.ipynb)
#
# # 13 · Solvers: differentiate the solution, not the steps
#
# **You will** use solvers inside a training loop: a root finder, a fixed-point iteration and a
# solver for banded linear systems. At the end, you will find a planet in noisy measurements.
#
# **You will learn** what a call to NumPy does to a graph, how the implicit function theorem gives
# you the gradient of any solver at the cost of one linear solve, and how to test a gradient that is
# only an estimate.
#
# **You need** lessons 01 and 02: `setup_context`, `gradcheck` and `diagnose`. You also need a fact
# from lesson 06: autograd can differentiate `backward` if it consists of differentiable operations.
#
# **It takes** about 55 minutes; the *extra* sections take another 20. There are two
# exercises in the lesson itself. The others are in the exercise notebook.

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
import math

import numpy as np
import scipy
import torch
from torch.autograd import Function, grad, gradcheck, gradgradcheck

from autograd_course import diagnose, grade, hint  # noqa: F401
from autograd_course.lesson import (
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    figure,
    kept_bytes,
    note,
    predict,
    show_error,
    vote,
)
from autograd_course.visualize import compare_flows, knowledge_check, memory_timeline

torch.set_default_dtype(torch.float64)

# %% [markdown]
# ## A spring that gets stiffer
#
# The further you pull this spring, the stiffer it gets. A load stretches it by a length $y$, and
# $y$ is the root of this equation:
#
# $$k\,y + y^3 = \text{load} .$$
#
# SciPy finds the root with Newton's method:


# %%
def solve_spring(k, load):
    """Return the y with k·y + y³ = load, for NumPy arrays."""

    def error(y):
        return k * y + y**3 - load

    def slope(y):
        return k + 3 * y**2

    return scipy.optimize.newton(error, np.divide(load, k), slope, tol=1e-13)


# %% jupyter={"source_hidden": true}
load = torch.tensor(1.0)


def energy(k, load, solver):
    """Return the energy that a spring of stiffness k stores under the load."""
    y = solver(k, load)
    return k * y**2 / 2 + y**4 / 4


def search(solver, steps=200):
    """Search for the k at which the energy is 0.2. Return k, and the energy of each step."""
    raw = torch.tensor(0.0, requires_grad=True)  # k = exp(raw) is positive
    optimizer, energies = torch.optim.Adam([raw], lr=0.05), []
    for _ in range(steps):
        stored = energy(raw.exp(), load, solver)
        optimizer.zero_grad()
        (stored - 0.2).square().backward()
        optimizer.step()
        energies.append(stored.item())
    return raw.exp().item(), energies


# %% [markdown]
# At which stiffness $k$ does the spring store an energy of 0.2 under a load of 1? (The solution is
# $k = 2.24$.) The function `search`, defined in the hidden cell, runs 200 steps of gradient descent
# from $k = 1$. In each step, it calls the solver that you pass.
#
# **Your turn.** Vote, then run the cell below. PyTorch raises an error whose message suggests a
# function to call. Change the marked line as the message suggests, and run the cell again. Some of
# the beliefs in this lesson are true.

# %%
vote("13", "detach-suggested")


# %%
def edited(k, load):
    y = solve_spring(k.numpy(), load.numpy())  # change this line
    return torch.as_tensor(y)


with show_error():
    stiffness, energies = search(edited)
    print(f"stiffness {stiffness:.2f}, energy {energies[-1]:.3f}")

# %% [markdown]
# With the suggested call, the cell looks like this:


# %%
def detached(k, load):
    y = solve_spring(k.detach().numpy(), load.detach().numpy())
    return torch.as_tensor(y)


stiffness, cut_energies = search(detached)
print(f"stiffness {stiffness:.2f}, energy {cut_energies[-1]:.3f}")

# %% [markdown]
# PyTorch no longer raises an error, but the search moved $k$ in the wrong direction. The energy
# depends on $k$ in two ways. For a fixed $y$, a stiffer spring stores more energy. But a stiffer
# spring also stretches less, and near $k = 1$, this second effect is larger. It influences the
# energy only through the solver, where `.detach()` has cut the graph. The gradient that remains is
# *incomplete*, and here it even has the wrong sign.
#
# `.detach().numpy()` tells autograd that the result of the solver is a constant. The error message
# tells you how to make the error go away. It does not say that the gradient will be right.

# %% [markdown]
# ## The whole thing, working
#
# A Function's `forward` may run any code, because you write the `backward` yourself. For
# `backward`, you need the derivatives of $y$, but you have no formula for $y$. Differentiate the
# *equation* instead. If $k$, the load and $y$ change a little, both sides change by the same
# amount:
#
# $$k\,dy + y\,dk + 3y^2\,dy = d\,\text{load} \quad\Longrightarrow\quad
# dy = \frac{d\,\text{load} - y\,dk}{k + 3y^2} .$$


# %%
class Spring(Function):
    """y with k·y + y³ = load, by SciPy; dy = (dload - y dk) / (k + 3y²)."""

    @staticmethod
    def forward(k, load):
        y = solve_spring(k.numpy(force=True), load.numpy(force=True))
        return torch.as_tensor(y, dtype=load.dtype, device=load.device)

    @staticmethod
    def setup_context(ctx, inputs, output):
        k, _ = inputs
        ctx.save_for_backward(k, output)

    @staticmethod
    def backward(ctx, grad_output):
        k, y = ctx.saved_tensors
        grad_load = grad_output / (k + 3 * y**2)
        grad_k = (-y * grad_load).sum_to_size(k.shape)  # one k may belong to many loads
        return grad_k, grad_load


k = torch.tensor(1.0, requires_grad=True)
print("gradcheck:", gradcheck(Spring.apply, (k, torch.tensor(1.0, requires_grad=True))))
stiffness, energies = search(Spring.apply)
print(f"stiffness {stiffness:.2f}, energy {energies[-1]:.3f}")

# %% jupyter={"source_hidden": true}
with figure(width=6.8, height=3.2) as (axes,):
    axes.plot(cut_energies, color=ORANGE)
    axes.plot(energies, color=BLUE)
    axes.axhline(0.2, color=GRAY, linestyle="--", linewidth=1)
    axes.set(title="energy of the spring", xlabel="step", ylabel="energy", ylim=(0.16, 0.31))
    note(axes, "solver detached", (60, 0.275), ORANGE)
    note(axes, "solver in a Function", (30, 0.213), BLUE)
    note(axes, "target", (150, 0.187), GRAY)

# %% [markdown]
# SciPy still solves the equation. `backward` neither calls the solver nor knows how many steps it
# took, so it would be the same for any other solver. (With the detached solver, $k$ goes to 0,
# where the energy is 0.25.)
#
# The picture below shows the graph of the energy for both solvers. If the solver is detached, the
# path from $k$ through the solver is missing. Step through the graphs with → and ←.

# %%
flows = {
    "solver detached": lambda k: energy(k, load, detached),
    "solver in a Function": lambda k: energy(k, load, Spring.apply),
}
compare_flows(flows, torch.tensor(1.0), sweep={"k": (0.2, 3.0)})

# %% [markdown]
# ### Checkpoint
#
# A spring with $k = 1$ carries a load of 2. It stretches to $y = 1$, because $1 + 1^3 = 2$. The
# loss is $4y^2$. What is the gradient of the load? Type your number in place of `...`.

# %%
heavy = torch.tensor(2.0, requires_grad=True)
(4 * Spring.apply(torch.tensor(1.0), heavy) ** 2).backward()

predict(..., heavy.grad)

# %% [markdown]
# <details><summary>Why</summary>
#
# `grad_output` is $\partial L/\partial y = 8y = 8$. The derivative of $y$ with respect to the load
# is $1/(k + 3y^2) = 1/4$. So the gradient is $8/4 = 2$.
#
# </details>

# %% [markdown]
# ## NumPy and SciPy inside a Function
#
# A Function that calls NumPy has to take care of four things:
#
# | | |
# | --- | --- |
# | input | `x.numpy(force=True)`: detached, on the CPU; for bfloat16, call `.float()` first |
# | output | `torch.as_tensor(y, dtype=x.dtype, device=x.device)`: many solvers return float64 |
# | memory | on the CPU, array and tensor *share* it: writing into one also changes the other |
# | backward | PyTorch operations on saved inputs and outputs: autograd can differentiate them |
#
# What happens if `backward` also calls SciPy? Take the Bessel functions $J_n$ as an example. They
# describe how a drum vibrates. SciPy computes $J_n(x)$ with `jv` and its derivative with `jvp`.


# %%
class BesselOnce(Function):
    """y = Jₙ(x); ∂L/∂x = Jₙ'(x)·∂L/∂y."""

    @staticmethod
    def forward(x, n):
        y = scipy.special.jv(n, x.numpy(force=True))
        return torch.as_tensor(y, dtype=x.dtype, device=x.device)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.n = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        slope = scipy.special.jvp(ctx.n, x.numpy(force=True))
        return grad_output * torch.as_tensor(slope, dtype=x.dtype, device=x.device), None


x = torch.tensor([0.5, 2.0, 5.0], requires_grad=True)
print("gradcheck:    ", gradcheck(BesselOnce.apply, (x, 0)))
print("gradgradcheck:", gradgradcheck(BesselOnce.apply, (x, 0), raise_exception=False))

# %% [markdown]
# The first derivative is right. But `slope` came from NumPy, so autograd treats it as a constant.
# The second derivative is wrong, and PyTorch raises no error (lesson 06). To fix this, call a
# *Function* in `backward`. Here, $J_n' = \tfrac12 (J_{n-1} - J_{n+1})$, so the Function can call
# itself, and you can differentiate it as often as you like:


# %%
class Bessel(BesselOnce):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        slope = (Bessel.apply(x, ctx.n - 1) - Bessel.apply(x, ctx.n + 1)) / 2
        return grad_output * slope, None


print("gradcheck:    ", gradcheck(Bessel.apply, (x, 0)))
print("gradgradcheck:", gradgradcheck(Bessel.apply, (x, 0)))

# %% [markdown]
# PyTorch provides $J_0$ as `torch.special.bessel_j0`. Before PyTorch 2.15, the result of this
# function has no graph, and PyTorch does not warn you.
#
# ### Exercise 1: lambert-w
#
# *Lambert's W* is the $w$ for which $w \, e^w = x$. Write a Function that computes it with
# `scipy.special.lambertw(array)` for $x \ge 0$. SciPy returns complex numbers whose imaginary parts
# are 0, so use the `.real` attribute. Differentiate the equation to find `backward`. The second
# derivative must also be right, even at $x = 0$. If you are stuck, run `hint("lambert-w")` in a new
# cell.


# %%
class LambertW(Function):
    @staticmethod
    def forward(x):
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs, output):
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output):
        # YOUR CODE HERE
        raise NotImplementedError


# %%
grade("lambert-w", LambertW)

# %% [markdown]
# ## Unrolling a solver
#
# You could also write the solver in PyTorch and let autograd record it. This is called *unrolling*.
# The spring's equation says $y\,(k + y^2) = \text{load}$, so a simple solver repeats
# $y \leftarrow \text{load}/(k + y^2)$. For a thousand loads, the next cell measures how much the
# unrolled solver and the Function save for backward.

# %%
vote("13", "saved-by-the-function")


# %%
def unrolled(rounds):
    def solve(k, load):
        y = load / k
        for _ in range(rounds):
            y = load / (k + y**2)
        return y

    return solve


loads = torch.linspace(0.1, 1.5, 1000, requires_grad=True)
for rounds in (10, 50, 200):
    kept = kept_bytes(unrolled(rounds), k, loads, anyway=True)
    print(f"{rounds:3} rounds recorded: {kept / 1000:7,.0f} kB")
kept = kept_bytes(Spring.apply, k, loads, anyway=True)  # anyway: NumPy allocated the solution
print(f"Function:            {kept / 1000:7,.0f} kB")

# %% [markdown]
# Autograd saves two vectors for each round. The Function saves only the solution, however many
# rounds the solver takes. If a network contains a solver as a layer, this difference can decide
# whether training fits in memory. The timeline shows the saved bytes for eight rounds and for the
# Function:

# %%
memory_timeline(
    {
        "eight rounds": lambda k, load: unrolled(8)(k, load).square().mean(),
        "Function": lambda k, load: Spring.apply(k, load).square().mean(),
    },
    k.detach(),
    loads.detach()[::10],
)

# %% [markdown]
# ### Stopped early
#
# *Extra: for readers who stop a solver before it has converged, and for readers of papers on
# one-step gradients.*
#
# If you stop the solver after $n$ rounds, its result $y_n$ is slightly wrong. The unrolled gradient
# is the exact derivative of this wrong $y_n$. The implicit gradient uses the right formula but
# evaluates it at the wrong point. There is also a shortcut: run the solver without a graph and
# record only the last round. The next cell compares all three gradients with the derivative of the
# true $y$.

# %%
vote("13", "stopped-solver")

# %%
y = detached(k, load)
true_slope = (-y / (k + 3 * y**2)).item()

errors = {"unrolled": [], "implicit": [], "last round only": []}
for n in range(1, 31):
    y_n = unrolled(n)(k, load)
    recorded = grad(y_n, k)[0].item()
    y_n = y_n.detach()
    implicit = (-y_n / (k + 3 * y_n**2)).item()
    last = (-y_n / (k + y_n**2)).item()
    errors["unrolled"].append(abs(recorded / true_slope - 1))
    errors["implicit"].append(abs(implicit / true_slope - 1))
    errors["last round only"].append(abs(last / true_slope - 1))
for name, off in errors.items():
    print(f"{name:15} error {off[9]:.0e} after 10 rounds, {off[29]:.0e} after 30")

# %% jupyter={"source_hidden": true}
with figure(width=6.8, height=3.4) as (axes,):
    for off, color in zip(errors.values(), (ORANGE, BLUE, GREEN), strict=True):
        axes.semilogy(range(1, 31), off, color=color)
    axes.set(title="gradient of an unfinished solver", xlabel="rounds", ylabel="relative error")
    note(axes, "last round only", (19, 1.1), GREEN)
    note(axes, "unrolled", (22, 4e-3), ORANGE)
    note(axes, "implicit", (9, 3e-6), BLUE)

# %% [markdown]
# The implicit gradient has the smallest error from the first round on. After ten rounds, its error
# is about 200 times smaller than the error of the unrolled gradient.
#
# More rounds do not make the shortcut right. It replaces the factor $k + 3y^2$ with $k + y^2$,
# because it treats the $y$ that enters the last round as a constant. In the literature, the
# shortcut is called the *one-step gradient* or *Jacobian-free backpropagation*. A *phantom
# gradient* records the last few rounds or sums several terms of a series.

# %% [markdown]
# ## One linear solve
#
# What you did for the spring works for any equation. A solver returns a $y$ for which
# $F(y, \theta) = 0$, where $F$ stands for $n$ equations with $n$ unknowns. If $\theta$ changes, $y$
# changes so that $F$ stays zero:
#
# $$\frac{\partial F}{\partial y}\, dy + \frac{\partial F}{\partial \theta}\, d\theta = 0 .$$
#
# The *implicit function theorem* says that you can solve this for $dy$ if the matrix
# $\partial F/\partial y$ is invertible.
#
# `backward` receives $g = \partial L/\partial y$. It solves one linear system with the *transposed*
# matrix, and then computes one vector-Jacobian product:
#
# $$\Bigl(\frac{\partial F}{\partial y}\Bigr)^{\!\top} u = g, \qquad
# \frac{\partial L}{\partial \theta} = - u^\top \frac{\partial F}{\partial \theta} .$$
#
# The first equation is called the *adjoint system*, and the recipe is called *implicit
# differentiation* or the *adjoint method*. JAX offers it as `jax.lax.custom_root`. The adjoint
# system is linear even if $F$ is not. It does not depend on how the solver found $y$, so you do not
# have to save any of the solver's steps.
#
# For the spring, $F = k\,y + y^3 - \text{load}$, and the matrix is the number $k + 3y^2$.

# %% [markdown]
# ## A fixed-point layer
#
# Many solvers repeat a step until the result no longer changes, so they find a $z$ with
# $z = f(z, \theta)$. Deep equilibrium models, belief propagation and value iteration work this way.
# With $F = z - f(z, \theta)$ and $J = \partial f/\partial z$, the adjoint system is
#
# $$(I - J^\top)\, u = g \qquad\text{or}\qquad u = g + J^\top u .$$
#
# The second form again describes a fixed point. Near the solution, iterating this equation
# converges if iterating $f$ does, and at the same rate. So `backward` needs neither a matrix nor a
# linear solver. It repeats a vector-Jacobian product of $f$, which autograd can compute.
#
# The Function below takes any $f$. Its `backward` records a *single* call to $f$ at the solution.
# Then it backpropagates through this call repeatedly until $u$ no longer changes.


# %%
def settled(step, start, rounds=500):
    """Repeat ``step`` until its result no longer changes."""
    z = start
    for _ in range(rounds):
        z, before = step(z), z
        if (z - before).abs().max() <= 1e-12:
            return z
    raise RuntimeError(f"no convergence after {rounds} rounds")


class FixedPoint(Function):
    """z = f(z, θ...); u = g + Jᵀu, ∂L/∂θ = uᵀ ∂f/∂θ."""

    @staticmethod
    def forward(f, start, *thetas):
        return settled(lambda z: f(z, *thetas), start)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.f, _, *thetas = inputs
        ctx.save_for_backward(output, *thetas)

    @staticmethod
    def backward(ctx, grad_output):
        if torch.is_grad_enabled():
            raise RuntimeError("FixedPoint is differentiable once")
        z, *thetas = [saved.detach().requires_grad_() for saved in ctx.saved_tensors]
        with torch.enable_grad():
            once = ctx.f(z, *thetas)

        def vjp(u, *inputs):
            return grad(once, inputs, u, retain_graph=True)

        u = settled(lambda u: grad_output + vjp(u, z)[0], grad_output)
        return None, None, *vjp(u, *thetas)


# %% [markdown]
# `backward` works on detached copies, so a second derivative would be wrong. For this reason,
# `backward` raises an error if grad mode is on (lesson 06).
#
# The example is a market with sixteen shops. Each shop's price depends on its own cost and on the
# prices of its neighbors: $p = \text{cost} + \tfrac12 \tanh(W p)$. How does the average price
# change if one shop's cost changes?

# %%
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
neighbors = torch.rand(16, 16).softmax(1).to(device).requires_grad_()
cost = torch.rand(16).to(device).requires_grad_()


def price(p, cost, W):
    return cost + torch.tanh(W @ p) / 2


def recorded_prices(cost, W):
    p = torch.zeros_like(cost)
    for _ in range(200):
        p = price(p, cost, W)
    return p


def settled_prices(cost, W):
    return FixedPoint.apply(price, torch.zeros_like(cost), cost, W)


print("gradcheck:", gradcheck(settled_prices, (cost, neighbors)))
for name, prices in (("200 rounds", recorded_prices), ("fixed point", settled_prices)):
    (by_cost,) = grad(prices(cost, neighbors).mean(), cost)
    kept = kept_bytes(prices, cost, neighbors)
    print(f"{name:11} saves {kept:6,} bytes, gradient", by_cost[:4].numpy(force=True).round(4))

# %% [markdown]
# The two gradients agree. The loop saves two vectors for each of its 200 rounds, while the Function
# saves only one vector in total. You could also use a faster solver in `forward`, such as
# Anderson's method, and leave `backward` as it is. (Some solvers converge even if iterating $f$
# diverges. The iteration for $u$ then also diverges, so solve $(I - J^\top)\,u = g$ with a linear
# solver instead.)
#
# There is one condition: the solver must have converged. For this reason, `settled` raises an error
# if it has not converged. If a solver returns its best guess after 20 rounds, you get the gradient
# at a point that does not solve the equation.

# %% [markdown]
# ## A linear system
#
# The simplest case is a linear system, $A x = b$. Here, $F = A x - b$, and the recipe gives
#
# $$A^\top u = g, \qquad \frac{\partial L}{\partial b} = u, \qquad
# \frac{\partial L}{\partial A} = - u\, x^\top .$$
#
# For a dense $A$, `torch.linalg.solve` already does this. But the matrices that arise from
# differential equations are sparse, and SciPy has fast solvers for them. For example, a
# *tridiagonal* matrix has entries only on its diagonal and on the two diagonals next to it. With
# 2,000 unknowns, it has six thousand entries, but the product $-u\,x^\top$ has four million
# entries. So the Function computes $-u_i x_j$ only for the positions on the three diagonals.
#
# Transposing a tridiagonal matrix swaps its two side diagonals. So `backward` can call the Function
# itself, which also makes the second derivative right.


# %%
class Tridiagonal(Function):
    """x with A x = b; Aᵀu = g, ∂b = u, ∂A = -u xᵀ on the three diagonals."""

    @staticmethod
    def forward(lower, diagonal, upper, b):
        bands = np.zeros((3, len(diagonal)))
        bands[0, 1:] = upper.numpy(force=True)
        bands[1] = diagonal.numpy(force=True)
        bands[2, :-1] = lower.numpy(force=True)
        x = scipy.linalg.solve_banded((1, 1), bands, b.numpy(force=True))
        return torch.as_tensor(x, dtype=b.dtype, device=b.device)

    @staticmethod
    def setup_context(ctx, inputs, output):
        lower, diagonal, upper, _ = inputs
        ctx.save_for_backward(lower, diagonal, upper, output)

    @staticmethod
    def backward(ctx, grad_output):
        lower, diagonal, upper, x = ctx.saved_tensors
        u = Tridiagonal.apply(upper, diagonal, lower, grad_output)
        return -u[1:] * x[:-1], -u * x, -u[:-1] * x[1:], u


rng = torch.Generator().manual_seed(0)
lower = torch.rand(4, generator=rng, requires_grad=True)
upper = torch.rand(4, generator=rng, requires_grad=True)
diagonal = torch.full((5,), 3.0, requires_grad=True)
b = torch.rand(5, generator=rng, requires_grad=True)
print("gradcheck:    ", gradcheck(Tridiagonal.apply, (lower, diagonal, upper, b)))
print("gradgradcheck:", gradgradcheck(Tridiagonal.apply, (lower, diagonal, upper, b)))

# %% [markdown]
# A common mistake is to solve with $A$ instead of $A^\top$. A test with a symmetric matrix does not
# catch this mistake, so use a nonsymmetric matrix.

# %% [markdown]
# ## A planet in the noise
#
# A planet pulls its star back and forth. Astronomers measure the velocity at which the star moves
# toward us. Here you have 60 such measurements. You want to know how strongly the planet pulls
# ($K$), how elongated its orbit is (the eccentricity $e$, which is 0 for a circle), how the orbit
# is oriented ($\omega$), and when the planet is closest to the star ($\tau$).
#
# The velocity follows from an angle $E$, and $E$ follows from the time $t$ through *Kepler's
# equation*:
#
# $$E - e \sin E = M, \qquad M = 2\pi (t - \tau) .$$
#
# There is no closed-form expression for $E$, but Newton's method finds it:


# %%
def solve_kepler(M, e):
    """Return the E with E - e sin E = M, for NumPy arrays, M from 0 to 2π."""

    def error(E):
        return E - e * np.sin(E) - M

    def slope(E):
        return 1 - e * np.cos(E)

    return scipy.optimize.newton(error, np.full_like(M, np.pi), slope, tol=1e-13)


# %% [markdown]
# ### Exercise 2: kepler
#
# Write `setup_context` and `backward`. $M$ can have any shape. $e$ is a single number between 0 and
# 1, so its gradient is a sum. Differentiate Kepler's equation, as you did with the spring's
# equation. The second derivative must also be right.


# %%
class Kepler(Function):
    @staticmethod
    def forward(M, e):
        E = solve_kepler(M.numpy(force=True), e.numpy(force=True))
        return torch.as_tensor(E, dtype=M.dtype, device=M.device)

    @staticmethod
    def setup_context(ctx, inputs, output):
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output):
        # YOUR CODE HERE
        raise NotImplementedError


# %%
grade("kepler", Kepler)

# %% [markdown]
# ### Two fits
#
# The hidden cell contains our solution `SolvedKepler`, the noisy measurements and the function
# `fit`, which fits the four parameters with 400 steps of gradient descent.

# %% jupyter={"source_hidden": true}
rng = torch.Generator().manual_seed(3)
t = torch.rand(60, generator=rng).sort().values
truth = {"K": 1.0, "e": 0.6, "omega": 0.8, "tau": 0.35}


class SolvedKepler(Kepler):
    """E with E - e sin E = M, by SciPy; dE = (dM + sin E de) / (1 - e cos E)."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, e = inputs
        ctx.save_for_backward(e, output)

    @staticmethod
    def backward(ctx, grad_output):
        e, E = ctx.saved_tensors
        grad_M = grad_output / (1 - e * E.cos())
        return grad_M, (grad_M * E.sin()).sum()


def velocity(t, K, e, omega, tau, kepler):
    """Return the velocity of the star at the times t, in units of the orbit's period."""
    M = (2 * math.pi * (t - tau)) % (2 * math.pi)
    E = kepler(M, e)
    nu = 2 * torch.atan2((1 + e).sqrt() * (E / 2).sin(), (1 - e).sqrt() * (E / 2).cos())
    return K * ((nu + omega).cos() + e * omega.cos())


# %% jupyter={"source_hidden": true}
def kepler_detached(M, e):
    return torch.as_tensor(solve_kepler(M.detach().numpy(), e.detach().numpy()))


actual = velocity(t, *(torch.tensor(value) for value in truth.values()), kepler_detached)
measured = actual + 0.03 * torch.randn(60, generator=rng)


def fit(kepler, steps=400):
    """Return K, e, ω and τ after gradient descent, and the typical error of each step."""
    raw = torch.tensor([0.7, -0.8, 0.3, 0.25], requires_grad=True)  # e = σ(-0.8) = 0.31
    optimizer, errors = torch.optim.Adam([raw], lr=0.02), []
    for _ in range(steps):
        K, squeezed, omega, tau = raw
        loss = (velocity(t, K, squeezed.sigmoid(), omega, tau, kepler) - measured).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        errors.append(loss.sqrt().item())
    fitted = raw.detach().clone()
    fitted[1].sigmoid_()
    return fitted, errors


# %% [markdown]
# The next cell runs two fits, one with the detached solver and one with the Function. Afterwards,
# replace `SolvedKepler` with your own `Kepler` and run the cell again.

# %%
vote("13", "loss-falls")

# %%
cut_orbit, cut_errors = fit(kepler_detached)
whole_orbit, whole_errors = fit(SolvedKepler.apply)
print("parameter  true  detached  Function")
for name, value, cut, whole in zip(truth, truth.values(), cut_orbit, whole_orbit, strict=True):
    print(f"{name:9} {value:5.2f} {cut:9.2f} {whole:9.2f}")
print(f"typical error   {cut_errors[-1]:9.2f} {whole_errors[-1]:9.2f}")

# %% jupyter={"source_hidden": true}
with figure(columns=2, height=3.6) as (watched, orbit):
    watched.semilogy(cut_errors, color=ORANGE)
    watched.semilogy(whole_errors, color=BLUE)
    watched.axhline(0.03, color=GRAY, linestyle="--", linewidth=1)
    watched.set(title="the training", xlabel="step", ylabel="typical error", ylim=(0.02, 1.2))
    note(watched, "solver detached", (170, 0.42), ORANGE)
    note(watched, "solver in a Function", (170, 0.05), BLUE)
    note(watched, "noise of the measurements", (5, 0.0235), GRAY)

    nights = torch.linspace(0, 1, 300)
    orbit.plot(t, measured, "o", color=GRAY, markersize=3)
    for parameters, color, dash in ((cut_orbit, ORANGE, "--"), (whole_orbit, BLUE, "-")):
        fitted = velocity(nights, *parameters, kepler_detached)
        orbit.plot(nights, fitted, color=color, linestyle=dash)
    orbit.set(title="the star's velocity", xlabel="time [periods]", ylabel="velocity")

# %% [markdown]
# With the Function, the error falls to the level of the noise in the measurements, and all four
# parameters are close to their true values. With the detached solver, the error falls at first but
# then stays high, and the orbit is wrong. $\tau$ has not moved at all, because its only path to the
# loss goes through the solver. This would be easy to notice. But $e$ has moved, because it also has
# other paths to the loss. Its gradient is incomplete but looks plausible.

# %% [markdown]
# ## When the gradient is an estimate
#
# *Extra: for readers whose function is a simulator, a game or a program that they can only call.
# This extra part ends just before "Do you know it?".*
#
# Some `backward` methods can only estimate the gradient, from random samples or from finite
# differences. Such a gradient always has an error. So instead of asking "is it right?", ask two
# questions: *is the code right?* and *how large is the error?* Answer them separately, because
# noise can hide a bug.
#
# The first example is the expected score $\mathbb{E}[f(\mu + \epsilon)]$ with normal noise
# $\epsilon$. The score $f$ comes from a game, so it has no derivative. The *score-function
# estimator* needs only values of $f$:
#
# $$\frac{\partial}{\partial\mu}\, \mathbb{E}\bigl[f(\mu + \epsilon)\bigr]
# = \mathbb{E}\bigl[f(\mu + \epsilon)\, \epsilon\bigr] .$$
#
# It differentiates the density of $z = \mu + \epsilon$ instead of $f$, and $\epsilon$ is the
# derivative of $\log p(z; \mu)$ with respect to $\mu$. (`forward` takes `ctx`, because `backward`
# needs the intermediate `values`.)


# %%
class Expectation(Function):
    """Mean of f(μ + ε) over the draws ε; ∂L/∂μ = g·mean(f(μ + ε) ε), an estimate."""

    @staticmethod
    def forward(ctx, mu, noise, f):
        values = f(mu + noise)
        ctx.save_for_backward(values, noise)
        return values.mean()

    @staticmethod
    def backward(ctx, grad_output):
        if torch.is_grad_enabled():
            raise RuntimeError("Expectation has no second derivative")
        values, noise = ctx.saved_tensors
        return grad_output * (values * noise).mean(), None, None


# %% [markdown]
# ### Freeze the noise
#
# The noise is an *argument*, so you can use the same noise in both passes. Then the estimate is the
# exact derivative of $\frac1n\sum_i f(z_i) \log p(z_i; \mu)$ with constant $z_i$. The next cell
# passes this function to `diagnose` as the *surrogate*, which is the function whose derivative
# `backward` should return (lesson 05). The cell uses only sixteen draws.

# %%
vote("13", "sixteen-draws")


# %%
def score(z):
    return z**2


def frozen(mu, noise, f):
    z = (mu + noise).detach()
    return (f(z) * -0.5 * (z - mu) ** 2).mean()


mu = torch.tensor(0.8, requires_grad=True)
noise = torch.randn(16, generator=torch.Generator().manual_seed(0))
print(diagnose(Expectation, (mu, noise, score), surrogate=frozen))

# %% [markdown]
# Sixteen draws are enough to test the sign, the factor, the mean and the shapes exactly.
#
# ### Count the samples
#
# To measure the error, you need a case with a known answer. For $f(z) = z^2$, the expectation is
# $\mu^2 + 1$, and its derivative is $2\mu$. The next cell repeats the estimate 300 times. The
# standard deviation of the 300 estimates is the *error* of a single estimate. Their mean shows
# whether there is a *bias*, an error that averaging does not remove. This mean has its own
# uncertainty, the *standard error*, which is the standard deviation divided by $\sqrt{300}$.


# %%
def estimates(n, repeats=300):
    rng = torch.Generator().manual_seed(n)
    noises = torch.randn(repeats, n, generator=rng)
    return torch.stack([grad(Expectation.apply(mu, e, score), mu)[0] for e in noises])


counts = (10, 40, 160, 640, 2560)
drawn = {n: estimates(n) for n in counts}
for n, values in drawn.items():
    spread = values.std().item()
    bias = abs(values.mean().item() - 2 * mu.item()) / (spread / math.sqrt(len(values)))
    print(f"{n:>5} draws: error {spread:.2f}, the mean is off by {bias:.1f} standard errors")
    assert bias < 3

# %% [markdown]
# There is no sign of a bias. Four times as many draws halve the error, because it falls as
# $1/\sqrt n$. One more correct digit costs a hundred times as many draws.
#
# ### Choose the step
#
# The second example is a library function that takes and returns a number: C's `lgamma`, the
# logarithm of the gamma function. `backward` computes a central difference, which costs two more
# calls. The argument `digits` limits the number of significant digits, so that you can also try a
# less precise library.


# %%
def library(x, digits):
    values = [float(f"{math.lgamma(v):.{digits}g}") for v in x.reshape(-1).tolist()]
    return torch.tensor(values, device=x.device).reshape(x.shape).to(x.dtype)


def central_difference(x, digits, h):
    return (library(x + h, digits) - library(x - h, digits)) / (2 * h)


class LogGamma(Function):
    """y = log Γ(x) by C's lgamma, x > 0; ∂L/∂x by central differences with step h, an estimate.

    With 17 digits and h = 1e-4, the error is below 1e-6 for x from 2 to 50, compared with digamma.
    Two library calls for each element. Float64 only. A second derivative raises an error.
    """

    @staticmethod
    def forward(x, digits=17, h=1e-4):
        return library(x, digits)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.digits, ctx.h = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        if torch.is_grad_enabled():
            raise RuntimeError("LogGamma has no second derivative")
        (x,) = ctx.saved_tensors
        return grad_output * central_difference(x, ctx.digits, ctx.h), None, None


# %% [markdown]
# For a function $f$, two kinds of error depend on the step $h$ in opposite ways. The *truncation
# error* $\tfrac16 h^2 |f_{xxx}|$ arises because a central difference is exact only up to
# degree 2. The *rounding error* $u |f| / h$ arises because the values have a limited relative
# precision $u$, and you divide by $h$. On logarithmic scales, the sum of the two errors is
# V-shaped. Its lowest point is near $h = \sqrt[3]{3\,u\,|f| / |f_{xxx}|}$, so the best step
# depends on the precision of the library.

# %% jupyter={"source_hidden": true}
at = torch.tensor(20.0)
exact = torch.digamma(at).item()
value, third = abs(math.lgamma(20.0)), abs(torch.special.polygamma(2, at).item())
steps = torch.logspace(-12, 1, 79)

with figure(columns=2, height=3.6) as (samples, choice):
    samples.loglog(counts, [values.std().item() for values in drawn.values()], "o", color=BLUE)
    one = math.sqrt(mu.item() ** 4 + 14 * mu.item() ** 2 + 15)  # the spread of f(z) ε itself
    samples.loglog(counts, [one / math.sqrt(n) for n in counts], color=GRAY, linestyle="--")
    samples.set(title="samples", xlabel="draws", ylabel="error of the estimate")
    note(samples, "theory: falls as $1/\\sqrt{n}$", (90, 0.75), GRAY)

    for digits, color in ((17, BLUE), (6, ORANGE)):
        slopes = (library(at + steps, digits) - library(at - steps, digits)) / (2 * steps)
        off = (slopes / exact - 1).abs().clamp(min=1e-13)
        choice.loglog(steps.numpy(), off.numpy(), ".", color=color)
        unit = 1.1e-16 if digits == 17 else 1e-6
        line = (third * steps**2 / 6 + unit * value / steps) / exact
        choice.loglog(steps.numpy(), line.numpy(), color=color, linewidth=1)
    choice.axvline(1e-6, color=GREEN, linestyle=":")
    choice.set(title="step", xlabel="step h", ylabel="relative error", ylim=(1e-13, 1e7))
    note(choice, "all digits", (2e-12, 3e-7), BLUE)
    note(choice, "six digits", (3e-9, 2e4), ORANGE)
    note(choice, "gradcheck's eps", (1.5e-6, 4e-13), GREEN)

# %% [markdown]
# The left figure shows that the error of the estimate falls as the theory predicts. The right
# figure shows the error of the central difference at $x = 20$. The lines show the theory, and the
# points show measurements. (Where the points form a horizontal line, the two values were equal, so
# the difference was 0.) At `gradcheck`'s default step of $10^{-6}$, the six-digit library does not
# give a single correct digit. Its best step is near 1.
#
# `gradcheck` also needs to know this step. With the default step, its own finite differences are 0:


# %%
def six_digits(x):
    return LogGamma.apply(x, 6, 1.0)


x = torch.tensor([10.0, 20.0], requires_grad=True)
with show_error():
    gradcheck(six_digits, x)
print("with step 1:", gradcheck(six_digits, x, eps=1.0, rtol=1e-3))

# %% [markdown]
# ### Decide and write it down
#
# Now decide whether the error is small enough *for the code that uses the gradient*. A stochastic
# optimizer tolerates ten percent noise if there is no bias. If you search for a solution with
# Newton's method, a gradient that is 1% off costs you a few more steps, but you find the same
# solution. If the gradient itself is your result, the error stays in your result. Write your
# decision in the docstring, where your users will look for it:
#
# | the docstring says | for example |
# | --- | --- |
# | that the gradient is an estimate, and of which kind | central differences; score function |
# | the bias and the error, and where you measured them | below 1e-6 for x from 2 to 50 |
# | what determines the error | the step $h$; the number of draws |
# | how you tested the code | a reference; frozen noise and a surrogate |
# | the cost, and where not to use it | two calls for each element; no second derivative |

# %% [markdown]
# ## Do you know it?
#
# Answer nine questions. If an answer is wrong, you see why and can try again. Five questions are
# about extra sections.

# %%
knowledge_check("13")

# %% [markdown] tags=["cheat-sheet"]
# ## Summary
#
# ```python
# class Solver(torch.autograd.Function):               # y with F(y, theta) = 0
#     @staticmethod
#     def forward(theta):
#         y = anything(theta.numpy(force=True))        # NumPy, SciPy, a program
#         return torch.as_tensor(y, dtype=theta.dtype, device=theta.device)
#     @staticmethod
#     def setup_context(ctx, inputs, output):
#         ctx.save_for_backward(*inputs, output)
#     @staticmethod
#     def backward(ctx, grad_output):
#         theta, y = ctx.saved_tensors
#         u = torch.linalg.solve(dF_dy(y, theta).mT, grad_output)
#         return -u @ dF_dtheta(y, theta)
# ```
#
# | | |
# | --- | --- |
# | `.detach().numpy()` | a constant: gradients through other paths stay, incomplete |
# | into NumPy and back | `numpy(force=True)`; dtype and device of the input; shared memory |
# | NumPy in `backward` | wrong second derivative; call a Function there instead |
# | an unrolled solver | memory grows with its rounds; needs more rounds for the same accuracy |
# | $F(y, \theta) = 0$ | adjoint system $F_y^\top u = g$, then $-u^\top F_\theta$ |
# | $z = f(z, \theta)$ | $u = g + J^\top u$, by repeating a VJP of one call |
# | $A x = b$ | $A^\top u = g$, $\partial b = u$, $\partial A = -u x^\top$ where $A$ has entries |
# | test of an estimate | freeze the noise; compare with a surrogate or a reference |
# | error from samples | falls as $1/\sqrt n$; compare the bias with the standard error |
# | step of a difference | $h^2$ against $u/h$, best near $\sqrt[3]{u}$, *the library's* $u$ |

# %% [markdown]
# ## Where next
#
# In [the exercises of this lesson](../exercises/13_solvers.ipynb), you will write Functions for a
# special function from SciPy, Kepler's equation, a fixed-point layer and a triangular system.
#
# In [lesson 14](14_external_code.ipynb), you will leave Python: you will build an operator in C++
# and write the Function around it.

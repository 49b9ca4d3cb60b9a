# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/13_solvers.ipynb)
#
# # 13 · Solvers: differentiate the solution, not the steps
#
# **You will** put SciPy's solvers into the middle of a training: a root finder, a fixed-point
# iteration and a banded linear system. At the end you will find a planet in noisy measurements.
#
# **You will learn** what a call into NumPy does to a graph, how the implicit function theorem gives
# the gradient of any solver for one linear solve, and how to test a gradient that is only an
# estimate.
#
# **You need** lesson 01 (a Function, `gradcheck`, `diagnose`), and from lesson 06 that autograd can
# differentiate a backward again if it consists of differentiable operations.
#
# **It takes** about 55 minutes; the *extra* sections take another 35. The exercises come after it.

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

from autograd_course import diagnose
from autograd_course.lesson import (
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    figure,
    five_steps,
    kept_bytes,
    note,
    predict,
)
from autograd_course.visualize import compare_flows, knowledge_check, memory_timeline

# %% [markdown]
# ## A spring that gets stiffer
#
# The further you pull this spring, the stiffer it gets. A load pulls it out by the length $y$ for
# which
#
# $$k\,y + y^3 = \text{load} .$$
#
# SciPy finds this $y$ with Newton's method. We want to know which stiffness $k$ makes the spring
# store an energy of 0.2 under a load of 1, and we search for $k$ by gradient descent.


# %%
def solve_spring(k, load):
    """Return the y with k·y + y³ = load, for NumPy arrays."""
    start = np.divide(load, k)  # from here Newton's method converges for every positive k
    return scipy.optimize.newton(
        lambda y: k * y + y**3 - load, start, lambda y: k + 3 * y**2, tol=1e-13
    )


def energy(k, load, solver):
    y = solver(k, load)
    return k * y**2 / 2 + y**4 / 4


torch.set_default_dtype(torch.float64)
load = torch.tensor(1.0)
try:
    energy(torch.tensor(1.0, requires_grad=True), load, solve_spring)
except RuntimeError as error:
    print(error)

# %% [markdown]
# PyTorch refuses to convert a tensor that is part of a graph, and its message suggests a call. We
# follow the suggestion and start the search at $k = 1$.


# %%
def detached(k, load):
    return torch.as_tensor(solve_spring(k.detach().numpy(), load.detach().numpy()))


def search(solver, steps=200):
    """Return the stiffness found, and the energies on the way."""
    raw = torch.tensor(0.0, requires_grad=True)  # k = exp(raw) is positive
    optimizer, energies = torch.optim.Adam([raw], lr=0.05), []
    for _ in range(steps):
        stored = energy(raw.exp(), load, solver)
        optimizer.zero_grad()
        (stored - 0.2).square().backward()
        optimizer.step()
        energies.append(stored.item())
    return raw.exp().item(), energies


cut, cut_energies = search(detached)
print(f"energy after 200 steps: {cut_energies[-1]:.3f}, and we want 0.200")
print(f"stiffness: {cut:.2f}")

# %% [markdown]
# Nothing raised an error, and $k$ went in the wrong direction. The energy depends on $k$ in two
# ways. For a given $y$, a stiffer spring stores more energy. But a stiffer spring also gives way
# less, and here this second effect is larger. It reaches the energy only through the solver, where
# `.detach()` has cut the graph. The gradient that remains is incomplete, and it even has the wrong
# sign.
#
# **Common belief: "`.detach().numpy()` is how you call NumPy."** It tells autograd that the result
# is a constant. The error message shows you how to make the error go away. It does not say that the
# gradient will be right.

# %% [markdown]
# ## The whole thing, working
#
# A Function may compute its value with any code, and it says itself how a gradient goes back. We
# need the derivatives of $y$, although we have no formula for $y$. Differentiate both sides of the
# *equation*, where $y$ depends on $k$ and on the load:
#
# $$k\,dy + y\,dk + 3y^2\,dy = d\,\text{load} \quad\Longrightarrow\quad
# dy = \frac{d\,\text{load} - y\,dk}{k + 3y^2} .$$


# %%
class Spring(Function):
    """y with k·y + y³ = load, by SciPy; dy = (dload - y dk) / (k + 3y²)."""

    @staticmethod
    def forward(ctx, k, load):
        y = solve_spring(k.numpy(force=True), load.numpy(force=True))
        y = torch.as_tensor(y, dtype=load.dtype, device=load.device)
        ctx.save_for_backward(y, k)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        y, k = ctx.saved_tensors
        grad_load = grad_output / (k + 3 * y**2)
        return (-grad_load * y).sum_to_size(k.shape), grad_load


stiffness = torch.tensor(1.0, requires_grad=True)
print("gradcheck:", gradcheck(Spring.apply, (stiffness, torch.tensor(1.0, requires_grad=True))))
found, energies = search(Spring.apply)
print(f"energy after 200 steps: {energies[-1]:.3f}, stiffness: {found:.2f}")

# %% jupyter={"source_hidden": true}
with figure(width=6.8, height=3.2) as (axes,):
    axes.plot(cut_energies, color=ORANGE)
    axes.plot(energies, color=BLUE)
    axes.axhline(0.2, color=GRAY, linestyle="--", linewidth=1)
    axes.set(title="energy of the spring", xlabel="step", ylabel="energy", ylim=(0.16, 0.31))
    note(axes, "solver detached", (60, 0.275), ORANGE)
    note(axes, "solver in a Function", (30, 0.213), BLUE)
    note(axes, "what we want", (150, 0.187), GRAY)

# %% [markdown]
# The solver is still SciPy's. `backward` does not call it and does not know how many steps it took.
# It would be the same for any other solver. The picture below shows the graph of the energy twice.
# In the upper graph the path from $k$ through the solver is missing. Step through it with → and ←.

# %%
flows = {
    "solver detached": lambda k: energy(k, load, detached),
    "solver in a Function": lambda k: energy(k, load, Spring.apply),
}
compare_flows(flows, torch.tensor(1.0), sweep={"k": (0.2, 3.0)})

# %% [markdown]
# ### Checkpoint 1
#
# A spring with $k = 1$ carries a load of 2. Then $y = 1$, because $1 + 1^3 = 2$. The loss is
# $4y^2$. Which gradient does the load get? Replace the dots by a number.

# %%
heavy = torch.tensor(2.0, requires_grad=True)
(4 * Spring.apply(torch.tensor(1.0), heavy) ** 2).backward()

predict(..., heavy.grad)

# %% [markdown]
# <details><summary>Why</summary>
#
# `grad_output` is $\partial L/\partial y = 8y = 8$. The derivative of $y$ with respect to the load
# is $1/(k + 3y^2) = 1/4$. So the load gets $8/4 = 2$.
#
# </details>

# %% [markdown]
# ## NumPy and SciPy inside a Function
#
# Every such Function has to take care of four things:
#
# | | |
# | --- | --- |
# | in | `x.numpy(force=True)`: detached, from any device (bfloat16: `.float()` first) |
# | out | `torch.as_tensor(y, dtype=x.dtype, device=x.device)`: many solvers return float64 |
# | memory | on the CPU both calls *share* it: writing into the array changes the tensor |
# | backward | PyTorch operations on saved inputs and outputs: can be differentiated again |
#
# What if SciPy computes the derivative too? **Common belief: "a gradient that NumPy computes is as
# good as any."** It is, once. The Bessel function $J_0$ describes the vibration of a drum. Its
# derivative is $-J_1$, and SciPy has both. (PyTorch has `torch.special.bessel_j0`. Up to PyTorch
# 2.14 its result has no graph, and nothing warns you. From 2.15 on it has one.)


# %%
class BesselOnce(Function):
    """y = J₀(x); ∂L/∂x = -J₁(x)·∂L/∂y."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.as_tensor(scipy.special.j0(x.numpy(force=True)), device=x.device)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        slope = -scipy.special.j1(x.numpy(force=True))
        return grad_output * torch.as_tensor(slope, device=x.device)


x = torch.tensor([0.5, 2.0, 5.0], requires_grad=True)
print("gradcheck:    ", gradcheck(BesselOnce.apply, x))
print("gradgradcheck:", gradgradcheck(BesselOnce.apply, x, raise_exception=False))

# %% [markdown]
# The slope came from NumPy, so autograd takes it for a constant. The second derivative is wrong,
# and nothing raises an error (lesson 06). The repair is to let `backward` call *Functions*. All
# Bessel functions of integer order follow one rule, $J_n' = \tfrac12 (J_{n-1} - J_{n+1})$. So one
# Function that takes the order as an argument can call itself, and you can differentiate it any
# number of times:


# %%
class Bessel(Function):
    """y = Jₙ(x); ∂L/∂x = ½(Jₙ₋₁(x) - Jₙ₊₁(x))·∂L/∂y."""

    @staticmethod
    def forward(ctx, x, n=0):
        ctx.save_for_backward(x)
        ctx.n = n
        y = scipy.special.jv(n, x.numpy(force=True))
        return torch.as_tensor(y, dtype=x.dtype, device=x.device)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        slope = (Bessel.apply(x, ctx.n - 1) - Bessel.apply(x, ctx.n + 1)) / 2
        return grad_output * slope, None


print("gradcheck:    ", gradcheck(Bessel.apply, x))
print("gradgradcheck:", gradgradcheck(Bessel.apply, x))

# %% [markdown]
# ## Unrolling a solver
#
# Back to the spring. Could you write the solver in PyTorch and let autograd record it? You can. The
# equation says $y\,(k + y^2) = \text{load}$, so a simple solver repeats $y \leftarrow
# \text{load}/(k + y^2)$. Autograd records every round and saves what it needs of each.


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
    kept = kept_bytes(unrolled(rounds), stiffness, loads, anyway=True)
    print(f"{rounds:3} rounds recorded: {kept / 1000:7,.0f} kB saved for backward")
kept = kept_bytes(Spring.apply, stiffness, loads, anyway=True)  # NumPy made what it saves
print(f"Function:            {kept / 1000:7,.0f} kB saved for backward")

# %% [markdown]
# Autograd saves two vectors for each round. The Function saves one vector in all. For a thousand
# springs the difference is a few megabytes. For a network that has a solver as a layer, it decides
# whether training fits into memory. The timeline below shows where these bytes are, for eight
# rounds and for the Function:

# %%
memory_timeline(
    {
        "eight rounds": lambda k, load: unrolled(8)(k, load).square().mean(),
        "Function": lambda k, load: Spring.apply(k, load).square().mean(),
    },
    stiffness.detach(),
    loads.detach()[::10],
)

# %% [markdown]
# ### Stopped early
#
# *Extra: which gradient is better while the solver has not converged. It is the implicit one.
# Recording only the last round never becomes right.*
#
# **Common belief: "the recorded gradient is exact, and the implicit one is an approximation."**
# Stop the solver after $n$ rounds. Then $y_n$ is a little wrong, and so are both gradients. The
# recorded gradient is the exact derivative of the wrong $y_n$. The implicit gradient is the right
# formula, evaluated at a wrong point. Which one is closer to the derivative of the true $y$?

# %%
k = torch.tensor(1.0, requires_grad=True)
y = detached(k, load)
true_slope = (-y / (k + 3 * y**2)).item()

errors = {"recorded": [], "implicit": [], "last round only": []}
for n in range(1, 31):
    y_n = unrolled(n)(k, load)
    recorded = grad(y_n, k)[0].item()
    y_n = y_n.detach()
    implicit = (-y_n / (k + 3 * y_n**2)).item()
    last = (-y_n / (k + y_n**2)).item()
    for name, slope in zip(errors, (recorded, implicit, last), strict=True):
        errors[name].append(abs(slope / true_slope - 1))
for name, off in errors.items():
    print(f"{name:15} off by {off[9]:.0e} after 10 rounds, by {off[29]:.0e} after 30")

# %% jupyter={"source_hidden": true}
with figure(width=6.8, height=3.4) as (axes,):
    for (_, off), color in zip(errors.items(), (ORANGE, BLUE, GREEN), strict=True):
        axes.semilogy(range(1, 31), off, color=color)
    axes.set(title="gradient of an unfinished solver", xlabel="rounds", ylabel="relative error")
    note(axes, "last round only", (19, 1.1), GREEN)
    note(axes, "recorded", (22, 4e-3), ORANGE)
    note(axes, "implicit", (9, 3e-6), BLUE)

# %% [markdown]
# The implicit gradient is ahead from the first round on, and after ten rounds its error is about
# 200 times smaller. It also costs only one division, while the recorded gradient needs all the
# saved rounds.
#
# The third curve is a shortcut that is often recommended: run the solver without a graph, and
# record only the last round. It is cheap, and it never becomes right, because it replaces the
# factor $k + 3y^2$ by $k + y^2$. The literature calls it the *one-step gradient* or *Jacobian-free
# backpropagation*; a *phantom gradient* records several last rounds, or sums several terms of a
# series.

# %% [markdown]
# ## One linear solve
#
# The recipe works for every equation. A solver returns a $y$ for which $F(y, \theta) = 0$, which is
# a system of $n$ equations with $n$ unknowns. If $\theta$ changes, $y$ changes so that $F$ stays
# zero:
#
# $$\frac{\partial F}{\partial y}\, dy + \frac{\partial F}{\partial \theta}\, d\theta = 0
# \quad\Longrightarrow\quad
# \frac{dy}{d\theta} = - \Bigl(\frac{\partial F}{\partial y}\Bigr)^{-1}
# \frac{\partial F}{\partial \theta} .$$
#
# This is the *implicit function theorem*. It holds where $\partial F/\partial y$ is invertible.
# `backward` receives $g$ and returns $g^\top \frac{dy}{d\theta}$. It never needs the matrix
# $\frac{dy}{d\theta}$ itself. It solves one linear system with the *transposed* matrix, and then
# computes one vector-Jacobian product:
#
# $$\Bigl(\frac{\partial F}{\partial y}\Bigr)^{\!\top} u = g, \qquad
# \frac{\partial L}{\partial \theta} = - u^\top \frac{\partial F}{\partial \theta} .$$
#
# The literature calls the transposed system the *adjoint* system, and the whole recipe the *adjoint
# method* or implicit differentiation. The adjoint system is linear even if $F$ is not. How the
# solver found $y$ plays no role, so you save none of its steps. For the spring, $F = k\,y + y^3 -
# \text{load}$, and the "matrix" is the number $k + 3y^2$.

# %% [markdown]
# ## A fixed-point layer
#
# Many solvers repeat a step until nothing changes any more, so they find a $z$ with $z = f(z,
# \theta)$. Equilibrium layers do this with a layer of a network, and so do belief propagation and
# value iteration. With $F = z - f(z, \theta)$ and $J = \partial f/\partial z$ the adjoint system is
#
# $$(I - J^\top)\, u = g \qquad\text{or}\qquad u = g + J^\top u .$$
#
# The second form is a fixed point again. It converges wherever the first iteration converged, at
# the same rate. So `backward` needs no matrix and no linear solver: it repeats a vector-Jacobian
# product of $f$, and autograd can compute that. The Function below takes any $f$. Its `backward`
# records a *single* call of $f$ at the solution, and goes back through this call until $u$ settles.


# %%
def settled(step, start, rounds=500):
    """Repeat ``step`` until it changes nothing any more."""
    z = start
    for _ in range(rounds):
        z, before = step(z), z
        if (z - before).abs().max() <= 1e-12:
            return z
    raise RuntimeError(f"not settled after {rounds} rounds")


class FixedPoint(Function):
    """z = f(z, θ...); u = g + Jᵀu, ∂L/∂θ = uᵀ ∂f/∂θ."""

    @staticmethod
    def forward(ctx, f, start, *thetas):
        z = settled(lambda z: f(z, *thetas), start)
        ctx.f = f
        ctx.save_for_backward(z, *thetas)
        return z

    @staticmethod
    def backward(ctx, grad_output):
        if torch.is_grad_enabled():
            raise RuntimeError("FixedPoint is differentiable once")
        z, *thetas = (saved.detach().requires_grad_() for saved in ctx.saved_tensors)
        with torch.enable_grad():
            once = ctx.f(z, *thetas)

        def vjp(u, *inputs):
            return torch.autograd.grad(once, inputs, u, retain_graph=True)

        u = settled(lambda u: grad_output + vjp(u, z)[0], grad_output)
        return None, None, *vjp(u, *thetas)


# %% [markdown]
# (`backward` works on detached copies. A second derivative through them would be wrong without any
# error, so `backward` raises one: lesson 06.)
#
# The example is a market with sixteen shops. Each shop sets its price by its own cost and by the
# prices of its neighbors, $p = \text{cost} + \tfrac12 \tanh(W p)$. Which shop's cost changes the
# average price most?

# %%
torch.manual_seed(0)
neighbors = torch.rand(16, 16).softmax(1)
cost = torch.rand(16, requires_grad=True)


def price(p, cost, W):
    return cost + torch.tanh(W @ p) / 2


def repeated(rounds):
    def prices(cost, W):
        p = torch.zeros(16)
        for _ in range(rounds):
            p = price(p, cost, W)
        return p

    return prices


def settled_prices(cost, W):
    return FixedPoint.apply(price, torch.zeros(16), cost, W)


print("gradcheck:", gradcheck(settled_prices, (cost, neighbors.requires_grad_())))
recorded, implicit = (
    grad(prices(cost, neighbors).mean(), cost)[0] for prices in (repeated(200), settled_prices)
)
print("the gradient of 200 recorded rounds:", torch.allclose(recorded, implicit))
for name, prices in (("200 rounds", repeated(200)), ("fixed point", settled_prices)):
    print(f"{name:12} {kept_bytes(prices, cost, neighbors):6,} bytes saved for backward")

print(f"shop {implicit.argmax().item()} changes the average price most")

# %% [markdown]
# The Function saves one vector, and the loop saves two for each of its 200 rounds. It would still
# be one vector if the solver took a million rounds, or if the solver were Newton's method,
# Anderson's method or a program without source code. (Such solvers also converge where repeating
# $f$ diverges. There, the loop for $u$ diverges too, and you need a linear solver for $(I -
# J^\top)\,u = g$.)
#
# There is one condition: the solver must have converged. `settled` raises an error if it does not
# settle. A solver that returns its best guess after 20 rounds gives you the gradient at a point
# that solves nothing.

# %% [markdown]
# ## A linear system
#
# The simplest case of the implicit function theorem is $A x = b$, with $F = A x - b$:
#
# $$A^\top u = g, \qquad \frac{\partial L}{\partial b} = u, \qquad
# \frac{\partial L}{\partial A} = - u\, x^\top .$$
#
# For a dense $A$, `torch.linalg.solve` already does this. But matrices that come from differential
# equations are sparse, and SciPy has fast solvers for them. Take a *tridiagonal* matrix: it has
# entries on its diagonal, just below it and just above it. With 2000 unknowns, a dense gradient of
# $A$ would have 4 million numbers, and only 6 thousand of them belong to an entry of $A$. The
# Function computes only those: $-u_i x_j$ for each entry $ij$. The transposed matrix is the same
# matrix with the two side diagonals exchanged, so `backward` can call the Function itself. This
# makes the second derivative right as well.


# %%
class Tridiagonal(Function):
    """x with A x = b; Aᵀu = g, ∂b = u, ∂A = -u xᵀ on the three diagonals."""

    @staticmethod
    def forward(ctx, lower, diagonal, upper, b):
        bands = np.zeros((3, len(diagonal)))
        bands[0, 1:], bands[1], bands[2, :-1] = (
            band.numpy(force=True) for band in (upper, diagonal, lower)
        )
        x = scipy.linalg.solve_banded((1, 1), bands, b.numpy(force=True))
        x = torch.as_tensor(x, dtype=b.dtype, device=b.device)
        ctx.save_for_backward(lower, diagonal, upper, x)
        return x

    @staticmethod
    def backward(ctx, grad_output):
        lower, diagonal, upper, x = ctx.saved_tensors
        u = Tridiagonal.apply(upper, diagonal, lower, grad_output)
        return -u[1:] * x[:-1], -u * x, -u[:-1] * x[1:], u


rng = torch.Generator().manual_seed(0)
lower, upper = (torch.rand(4, generator=rng, requires_grad=True) for _ in range(2))
b = torch.rand(5, generator=rng, requires_grad=True)
diagonal = torch.full((5,), 3.0, requires_grad=True)
print("gradcheck:    ", gradcheck(Tridiagonal.apply, (lower, diagonal, upper, b)))
print("gradgradcheck:", gradgradcheck(Tridiagonal.apply, (lower, diagonal, upper, b)))

# %% [markdown]
# ### Checkpoint 2
#
# *Extra: find the most common mistake in the backward of a linear solve.*
#
# The class below contains a common mistake: `backward` solves with $A$ instead of $A^\top$. With a
# symmetric matrix, which is what most people test with, nothing is wrong. Run the cell to see what
# `diagnose` says about a matrix that is not symmetric. Then repair the line and run the cell again.


# %%
class Forgetful(Tridiagonal):
    @staticmethod
    def backward(ctx, grad_output):
        lower, diagonal, upper, x = ctx.saved_tensors
        u = Tridiagonal.apply(lower, diagonal, upper, grad_output)
        return -u[1:] * x[:-1], -u * x, -u[:-1] * x[1:], u


mirrored = lower.detach().clone().requires_grad_()
print("gradcheck, symmetric:", gradcheck(Forgetful.apply, (lower, diagonal, mirrored, b)))
diagnose(Forgetful, (lower, diagonal, upper, b))

# %% [markdown]
# <details><summary>Why</summary>
#
# Write `upper, diagonal, lower` in the call. The report says which gradient is wrong and by how
# much. It cannot say that the matrix was not transposed. You see that if you exchange the two side
# diagonals in your test.
#
# </details>

# %% [markdown]
# ## A planet in the noise
#
# Now use the recipe on real astronomy. A planet pulls its star back and forth. We measure the
# star's velocity toward us on 60 nights. From these velocities we want to learn how strongly the
# planet pulls ($K$), how elongated its orbit is (the eccentricity $e$, 0 for a circle), how the
# orbit is turned ($\omega$), and when the planet is closest to the star ($\tau$). The planet's
# position follows from an angle $E$, and $E$ follows from the time by *Kepler's equation*:
#
# $$E - e \sin E = M, \qquad M = 2\pi (t - \tau) .$$
#
# No formula solves it for $E$. Newton's method does.


# %%
def solve_kepler(M, e):
    """Return the E with E - e sin E = M, for NumPy arrays, M from 0 to 2π."""
    start = np.full_like(M, np.pi)  # from here Newton's method converges for every e < 1
    return scipy.optimize.newton(
        lambda E: E - e * np.sin(E) - M, start, lambda E: 1 - e * np.cos(E), tol=1e-13
    )


def velocity(t, K, e, omega, tau, kepler):
    """The star's velocity at the times t, in units of the orbit's period."""
    M = (2 * math.pi * (t - tau)) % (2 * math.pi)
    E = kepler(M, e)
    nu = 2 * torch.atan2((1 + e).sqrt() * (E / 2).sin(), (1 - e).sqrt() * (E / 2).cos())
    return K * ((nu + omega).cos() + e * omega.cos())


def kepler_detached(M, e):
    return torch.as_tensor(solve_kepler(M.detach().numpy(), e.detach().numpy()))


# %% [markdown]
# ### Checkpoint 3
#
# Before you read on, derive what `backward` must return. Differentiate both sides of Kepler's
# equation, where $E$ depends on $M$ and on $e$. Take $e = \tfrac12$ and $E = \pi/2$, with
# `grad_output` 1. Which gradient does $e$ get?


# %%
class Kepler(Function):
    """E with E - e sin E = M, by SciPy; dE = (dM + sin E de) / (1 - e cos E)."""

    @staticmethod
    def forward(ctx, M, e):
        E = solve_kepler(M.numpy(force=True), e.numpy(force=True))
        E = torch.as_tensor(E, dtype=M.dtype, device=M.device)
        ctx.save_for_backward(E, e)
        return E

    @staticmethod
    def backward(ctx, grad_output):
        E, e = ctx.saved_tensors
        grad_M = grad_output / (1 - e * E.cos())
        return grad_M, (grad_M * E.sin()).sum_to_size(e.shape)


e = torch.tensor(0.5, requires_grad=True)
Kepler.apply(torch.tensor(math.pi / 2 - 0.5), e).backward()

predict(..., e.grad)

# %% [markdown]
# <details><summary>Why</summary>
#
# Both sides give $dE - e \cos E\, dE - \sin E\, de = dM$, so
#
# $$dE = \frac{dM + \sin E \, de}{1 - e \cos E} .$$
#
# At $E = \pi/2$ the sine is 1 and the cosine is 0, so $e$ gets $1/1 = 1$.
#
# </details>

# %% [markdown]
# ### Two fits
#
# The next cell makes up 60 noisy measurements and fits the four parameters to them twice: with the
# solver detached, and with the Function.

# %%
rng = torch.Generator().manual_seed(3)
t = torch.rand(60, generator=rng).sort().values
truth = {"K": 1.0, "e": 0.6, "omega": 0.8, "tau": 0.35}
actual = velocity(t, *(torch.tensor(value) for value in truth.values()), kepler_detached)
measured = actual + 0.03 * torch.randn(60, generator=rng)


def fit(kepler, steps=400):
    """Return K, e, ω and τ after gradient descent, and the typical errors on the way."""
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


cut_orbit, cut_errors = fit(kepler_detached)
whole_orbit, whole_errors = fit(Kepler.apply)
for name, value, *both in zip(truth, truth.values(), cut_orbit, whole_orbit, strict=True):
    print(f"{name:6} true {value:.2f}  detached {both[0]:.2f}  Function {both[1]:.2f}")
print(f"typical error     detached {cut_errors[-1]:.2f}  Function {whole_errors[-1]:.2f}")

# %% jupyter={"source_hidden": true}
with figure(columns=2, height=3.6) as (watched, orbit):
    watched.semilogy(cut_errors, color=ORANGE)
    watched.semilogy(whole_errors, color=BLUE)
    watched.axhline(0.03, color=GRAY, linestyle="--", linewidth=1)
    watched.set(title="the training", xlabel="step", ylabel="typical error", ylim=(0.02, 1.2))
    note(watched, "the solver detached", (170, 0.42), ORANGE)
    note(watched, "the solver in a Function", (170, 0.05), BLUE)
    note(watched, "noise of the measurements", (5, 0.0235), GRAY)

    nights = torch.linspace(0, 1, 300)
    orbit.plot(t, measured, "o", color=GRAY, markersize=3)
    for parameters, color, dash in ((cut_orbit, ORANGE, "--"), (whole_orbit, BLUE, "-")):
        fitted = velocity(nights, *parameters, kepler_detached)
        orbit.plot(nights, fitted, color=color, linestyle=dash)
    orbit.set(title="the star's velocity", xlabel="time [periods]", ylabel="velocity")

# %% [markdown]
# With the Function, the typical error falls to the noise of the measurements, and all four
# parameters are close to the truth. With the solver detached, the loss falls too and then flattens,
# and the orbit is wrong. $\tau$ has not moved at all, because the solver is its only path to the
# loss. $e$ has moved, which is worse: three other paths from $e$ to the loss do not go through the
# solver, so its gradient is *incomplete* but looks plausible. An optimizer follows whatever
# gradient it gets.

# %% [markdown]
# ## When the gradient is an estimate
#
# *Extra: for code that has no equation, such as a game, a simulator or a program that you can only
# call. The extra part ends after "Decide and write it down".*
#
# So far you could compare every gradient with the truth. Sometimes `backward` can only estimate its
# gradient: from samples if the function is an expectation, or from finite differences if the
# function is closed code. Such a gradient is never right to the last digit. Instead of "is it
# right?" ask two questions: *is the code right?* and *how far off is the estimate?* Answer them
# separately, because noise hides a bug well.
#
# The first example is the expectation of a score $f(z)$ over $z = \mu + \epsilon$, where $\epsilon$
# is normal noise. We estimate it from $n$ draws. The score comes from a game, a simulator or a
# user, so it has no derivative. But
#
# $$\frac{\partial}{\partial\mu}\, \mathbb{E}\bigl[f(\mu + \epsilon)\bigr]
# = \mathbb{E}\bigl[f(\mu + \epsilon)\, \epsilon\bigr],$$
#
# and the right side needs only values of $f$. This is the *score-function estimator*. ($\mu$ shifts
# the density of $z$, so you differentiate the density instead of $f$. For a normal density $p$ with
# variance 1, $\partial \log p / \partial \mu = z - \mu = \epsilon$.)


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
# **Common belief: "it is random, so you cannot test it."** The noise is an *argument* here, so you
# can keep it fixed, and with fixed noise the Function is an ordinary function. Its backward is then
# the exact derivative of $\frac1n\sum_i f(z_i) \log p(z_i; \mu)$, where the $z_i$ are constants. So
# pass this as the *surrogate*, the function whose derivative backward is meant to be (lesson 05):


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
# Sixteen draws are enough to prove that sign, factor, mean and shapes are exactly right. The noise
# did not get in the way.

# %% [markdown]
# ### Count the samples
#
# How far off is the estimate? To find out, you need a case with a known answer: for $f(z) = z^2$
# the expectation is $\mu^2 + 1$, and its derivative is $2\mu$. Repeat the estimate 300 times and
# look at two numbers. The spread of the estimates is the *error* of a single one. Their mean shows
# whether there is a *bias*, which is an error that averaging does not remove. The mean of 300
# estimates is itself uncertain by its *standard error*, the spread divided by $\sqrt{300}$.


# %%
def estimates(n, repeats=300):
    rng = torch.Generator().manual_seed(n)
    noises = torch.randn(repeats, n, generator=rng)
    return torch.stack([grad(Expectation.apply(mu, e, score), mu)[0] for e in noises])


counts = (10, 40, 160, 640, 2560)
drawn = {n: estimates(n) for n in counts}
for n, values in drawn.items():
    spread = values.std().item()
    off = abs(values.mean().item() - 2 * mu.item()) / (spread / math.sqrt(len(values)))
    print(f"{n:>5} draws: spread {spread:.2f}, mean off by {off:.1f} standard errors")
    assert off < 3

# %% [markdown]
# We see no bias, and four times the draws halve the spread. The error falls as $1/\sqrt n$, as it
# does for every mean. So one measurement tells you the price of any accuracy: one more digit costs
# a hundred times the draws.

# %% [markdown]
# ### Choose the step
#
# The second example is a closed library: C's `lgamma`, the logarithm of the gamma function. It
# takes a number and returns a number. `backward` computes a central difference, at the price of two
# more calls. The docstring says how good that is, and the rest of this section shows how you find
# out.


# %%
def library(x, digits=17):
    values = [float(f"{math.lgamma(v):.{digits}g}") for v in x.reshape(-1).tolist()]
    return torch.tensor(values, device=x.device).reshape(x.shape).to(x.dtype)


class LogGamma(Function):
    """y = log Γ(x) by C's lgamma, x > 0; ∂L/∂x by central differences, an estimate.

    Step h = 1e-5·x. Relative error below 1e-6 for x from 2 to 50, against digamma (which is 0 at
    1.46: near there the error is 1e-9, absolute). Code verified with reference=torch.lgamma.
    Costs two library calls an element. float64 only; a second derivative raises.
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return library(x)

    @staticmethod
    def backward(ctx, grad_output):
        if torch.is_grad_enabled():
            raise RuntimeError("LogGamma has no second derivative")
        (x,) = ctx.saved_tensors
        h = 1e-5 * x
        return grad_output * (library(x + h) - library(x - h)) / (2 * h)


x = torch.linspace(2, 50, 97, requires_grad=True)
(slope,) = grad(LogGamma.apply(x).sum(), x)
largest = (slope / torch.digamma(x) - 1).abs().max().item()
print("relative error below 1e-6:", largest < 1e-6)
print(five_steps(LogGamma, x.detach()[:4], torch.lgamma))

# %% [markdown]
# Where does the step come from? Two errors pull in opposite directions. *Truncation*: the curve is
# not a straight line, and the error is $\tfrac16 h^2 |f_{xxx}|$. *Rounding*: the two values agree
# in their leading digits, and values with a relative precision $u$ leave an error of $u |f| / h$.
# The sum of the two is a V. Its lowest point is near $h = \sqrt[3]{3\,u\,|f| / |f_{xxx}|}$.
#
# **Common belief: "1e-6 is the right step."** It depends on how many digits the library returns.
# Here is the same library twice: once with all digits, and once with six.

# %% jupyter={"source_hidden": true}
at = torch.tensor(20.0)
exact = torch.digamma(at).item()
value, third = abs(math.lgamma(20.0)), abs(torch.special.polygamma(2, at).item())
steps = torch.logspace(-12, 1, 79)

with figure(columns=2, height=3.6) as (samples, choice):
    samples.loglog(counts, [values.std().item() for values in drawn.values()], "o", color=BLUE)
    one = math.sqrt(mu.item() ** 4 + 14 * mu.item() ** 2 + 15)  # the spread of f(z) ε itself
    samples.loglog(counts, [one / math.sqrt(n) for n in counts], color=GRAY, linestyle="--")
    samples.set(title="samples", xlabel="draws", ylabel="spread of the estimate")
    note(samples, "theory: falls as $1/\\sqrt{n}$", (90, 0.75), GRAY)

    for digits, color in ((17, BLUE), (6, ORANGE)):
        slopes = (library(at + steps, digits) - library(at - steps, digits)) / (2 * steps)
        off = (slopes / exact - 1).abs().clamp(min=1e-13)
        choice.loglog(steps.numpy(), off.numpy(), ".", color=color)
        unit = 1.1e-16 if digits == 17 else 1e-6
        line = (third * steps**2 / 6 + unit * value / steps) / exact
        choice.loglog(steps.numpy(), line.numpy(), color=color, linewidth=1)
    choice.axvline(1e-6, color=GREEN, linestyle=":")
    choice.set(title="step", xlabel="h", ylabel="relative error", ylim=(1e-13, 1e7))
    note(choice, "all digits", (2e-12, 3e-7), BLUE)
    note(choice, "six digits", (3e-9, 2e4), ORANGE)
    note(choice, "gradcheck's eps", (1.5e-6, 4e-13), GREEN)


# %% [markdown]
# On the left, the spread falls as the theory says. On the right are the two Vs: the lines are the
# theory, the points are measured. (Where the points form a level line, the two values were equal
# and the slope came out as 0.) At $h = 10^{-6}$ the exact library still gives eight right digits,
# and the other one gives none. Its best step is near 1.


# %%
def error_at(h, digits):
    slope = (library(at + h, digits) - library(at - h, digits)).item() / (2 * h)
    return abs(slope / exact - 1)


for digits, bound in ((17, 1e-8), (6, 0.5)):
    print(f"{digits:>2} digits, step 1e-6: error below {bound:g}: {error_at(1e-6, digits) < bound}")
print(f" 6 digits, step 1:    error below 1e-3: {error_at(1.0, 6) < 1e-3}")

# %% [markdown]
# ### Decide and write it down
#
# Now you have numbers, and you can decide whether they are good enough *for what uses the
# gradient*. A stochastic optimizer tolerates ten percent of noise if there is no bias. A line
# search, a Newton step and a gradient penalty do not. Record the decision in the docstring, because
# nobody will look anywhere else:
#
# | the docstring says | for instance |
# | --- | --- |
# | that it is an estimate, and which | central differences; score function |
# | bias and error, measured on what range | below 1e-6 for x from 2 to 50 |
# | what sets the error | step $h$ and the library's digits; draws $n$, as $1/\sqrt n$ |
# | how you verified the code | a reference; frozen noise and a surrogate |
# | the cost, and where not to use it | two calls an element; no second derivative |
#
# Here is a program that simulates the flight of a ball through air. It prints how far the ball
# went, in meters with three decimals. The ball flies about 50 m, so $u = 10^{-3}/50$, and the best
# step is of the order of $\sqrt[3]{u} \approx 0.03$.


# %%
def exact_flight(angle, speed):
    """How far a ball flies, with drag, thrown at ``angle`` (radians) with ``speed`` (m/s)."""

    def motion(t, state):
        _, _, vx, vy = state
        drag = 0.01 * math.hypot(vx, vy)
        return vx, vy, -drag * vx, -9.81 - drag * vy

    def landed(t, state):
        return state[1]

    landed.terminal, landed.direction = True, -1
    start = 0, 1e-9, speed * math.cos(angle), speed * math.sin(angle)
    run = scipy.integrate.solve_ivp(motion, (0, 20), start, events=landed, rtol=1e-8, atol=1e-9)
    return run.y_events[0][0, 0]


def flight(angle, speed):
    return round(exact_flight(angle, speed), 3)


def slope(f, h, angle=0.6, speed=30.0):
    return (f(angle + h, speed) - f(angle - h, speed)) / (2 * h)


def worst(h):
    """Return the largest relative error of the slope at three angles."""
    exact_slopes = {at: slope(exact_flight, 1e-3, at) for at in (0.5, 0.6, 0.65)}
    return max(abs(slope(flight, h, at) / exact - 1) for at, exact in exact_slopes.items())


for h in (1e-5, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3):
    print(f"step {h:.0e}: off by {worst(h):.1%}")


# %%
class Flight(Function):
    """Distance flown, by an external program; the gradient by central differences, good to 1%.

    Measured at 0.6 rad and 30 m/s; differentiable once.
    """

    STEPS = 0.03, 0.3  # of the angle [rad] and of the speed [m/s]

    @staticmethod
    def forward(ctx, angle, speed):
        ctx.save_for_backward(angle, speed)
        return angle.new_tensor(flight(angle.item(), speed.item()))

    @staticmethod
    def backward(ctx, grad_output):
        if torch.is_grad_enabled():
            raise RuntimeError("Flight is differentiable once")
        at, gradients = [it.item() for it in ctx.saved_tensors], []
        for i, h in enumerate(Flight.STEPS):
            above, below = (
                flight(*(it + side * h * (j == i) for j, it in enumerate(at))) for side in (1, -1)
            )
            gradients.append(grad_output * (above - below) / (2 * h))
        return tuple(gradients)


at = [torch.tensor(value, requires_grad=True) for value in (0.6, 30.0)]
print("gradcheck as it is:        ", gradcheck(Flight.apply, at, raise_exception=False))
print("at this step and tolerance:", gradcheck(Flight.apply, at, eps=0.02, rtol=0.01, atol=0.01))

# %% [markdown]
# `gradcheck` uses finite differences itself, with a step of $10^{-6}$. For a rounded value these
# are noise, so you must tell the test how precise the value is. You test the rest of the code as
# always: the number of gradients, `grad_output` as a factor, and the gradient of each input.
#
# Is an error of 1% good enough? That depends on the use, and you can run the use. A hoop hangs 50
# m away:

# %%
angle, speed = (torch.tensor(value, requires_grad=True) for value in (0.6, 30.0))
for _ in range(8):
    miss = Flight.apply(angle, speed) - 50
    by_angle, by_speed = grad(miss, (angle, speed))
    with torch.no_grad():  # Newton's step, the shortest that closes the gap
        scale = miss / (by_angle**2 + by_speed**2)
        angle -= scale * by_angle
        speed -= scale * by_speed
print(f"after eight steps it misses by {abs(miss.item()):.3f} m")

# %% [markdown]
# **Common belief: "a gradient that is 1% off still finds the solution."** This one is true. The
# gradient still points downhill, so the error changes the path and not the solution. But if the
# gradient itself *is* your result, such as a sensitivity in a report, an error of 1% stays an
# error of 1%.

# %% [markdown]
# ## Do you know it?
#
# Eight questions. A wrong answer explains itself; try again.

# %%
knowledge_check("13")

# %% [markdown] tags=["cheat-sheet"]
# ## Summary
#
# ```python
# class Solver(torch.autograd.Function):               # y with F(y, theta) = 0
#     @staticmethod
#     def forward(ctx, theta):
#         y = anything(theta.numpy(force=True))        # NumPy, SciPy, a program
#         y = torch.as_tensor(y, dtype=theta.dtype, device=theta.device)
#         ctx.save_for_backward(y, theta)
#         return y
#
#     @staticmethod
#     def backward(ctx, grad_output):
#         y, theta = ctx.saved_tensors
#         u = torch.linalg.solve(dF_dy(y, theta).mT, grad_output)
#         return -u @ dF_dtheta(y, theta)
# ```
#
# | | |
# | --- | --- |
# | `.detach().numpy()` | a constant: gradients through other paths stay, incomplete |
# | into NumPy and back | `numpy(force=True)`; dtype and device of the input; shared memory |
# | NumPy in `backward` | right once; call Functions there, and it is right twice |
# | a recorded solver | memory grows with its rounds; needs more rounds for the same accuracy |
# | $F(y, \theta) = 0$ | adjoint system $F_y^\top u = g$, then $-u^\top F_\theta$ |
# | $z = f(z, \theta)$ | $u = g + J^\top u$, by repeating a VJP of one call |
# | $A x = b$ | $A^\top u = g$, $\partial b = u$, $\partial A = -u x^\top$ where $A$ has entries |
# | estimate: its code | freeze the noise; exact against a surrogate or a reference |
# | estimate: samples | error as $1/\sqrt n$; bias against its standard error |
# | estimate: step | a V: $h^2$ against $u/h$, bottom near $\sqrt[3]{u}$, with *the library's* $u$ |

# %% [markdown]
# ## Where next
#
# [The exercises of this lesson](../exercises/13_solvers.ipynb): a special function of SciPy, a
# fixed-point layer, and a triangular system.
#
# [Lesson 14](14_external_code.ipynb) leaves Python: you build an operator in C++ and write the
# Function around it.

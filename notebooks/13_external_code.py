# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/13_external_code.ipynb)
#
# # 13 · External code
#
# **You will** put code that PyTorch cannot see into the middle of a training: a SciPy solver, a
# fixed point, a banded linear system, a C++ operator that is built while you watch, a simulator.
#
# **You will learn** what a call into NumPy does to a graph, how the implicit function theorem gives
# the gradient of a solver for one linear solve, what a C++ or CUDA operator must respect, and how
# to live with a gradient that is only approximate.
#
# **You need** lesson 01 (a Function, `gradcheck`, `diagnose`), and from lesson 06 that a backward
# made of differentiable operations can be differentiated again. For the C++ part a compiler; where
# there is none, the cells say so and the rest of the lesson runs.
#
# **It takes** 35 minutes with two of the three checkpoints; the sections marked *in depth*,
# another 25, can wait. The exercises come after it.

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
import importlib.util
import math
import time
import warnings

import numpy as np
import scipy
import torch
from torch.autograd import Function, gradcheck, gradgradcheck

from autograd_course import diagnose
from autograd_course.lesson import (
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    SOURCES,
    BuildError,
    benchmark_results,
    build,
    figure,
    kept_bytes,
    note,
    predict,
)
from autograd_course.visualize import compare_flows, knowledge_check, memory_timeline

# %% [markdown]
# ## A planet in the noise
#
# A planet pulls its star to and fro. The star's velocity toward us, measured on 60 nights, tells
# how strongly ($K$), how elongated the orbit is (its eccentricity $e$, 0 for a circle), how it is
# turned ($\omega$), and when the planet is closest to the star ($\tau$). In units of the orbit's
# period,
#
# $$v(t) = K\,\bigl[\cos(\nu + \omega) + e \cos\omega\bigr], \qquad
# \tan\frac{\nu}{2} = \sqrt{\frac{1 + e}{1 - e}}\,\tan\frac{E}{2}, \qquad
# \underbrace{E - e \sin E = 2\pi (t - \tau)}_{\text{Kepler's equation}} .$$
#
# The angle $\nu$ says where the planet is. It follows from a second angle, $E$, and $E$ from the
# time; but Kepler's equation cannot be solved for $E$ by any formula. It needs a solver, and SciPy
# has one: Newton's method, for whole arrays.


# %%
def solve_kepler(M, e):
    """Return the E with E - e sin E = M; arrays of NumPy, M from 0 to 2π."""
    start = np.full_like(M, np.pi)  # from here Newton's method arrives for every e < 1
    return scipy.optimize.newton(
        lambda E: E - e * np.sin(E) - M, start, lambda E: 1 - e * np.cos(E), tol=1e-13
    )


def velocity(t, K, e, omega, tau, kepler):
    M = (2 * math.pi * (t - tau)) % (2 * math.pi)
    E = kepler(M, e)
    nu = 2 * torch.atan2((1 + e).sqrt() * (E / 2).sin(), (1 - e).sqrt() * (E / 2).cos())
    return K * ((nu + omega).cos() + e * omega.cos())


torch.set_default_dtype(torch.float64)
e = torch.tensor(0.5, requires_grad=True)
try:
    velocity(torch.rand(3), 1.0, e, e, e, lambda M, e: torch.as_tensor(solve_kepler(M, e)))
except RuntimeError as error:
    print(error)

# %% [markdown]
# PyTorch refuses to hand over a tensor that is part of a graph, and tells us what to do instead. So
# we do it, and fit the four parameters to measured velocities by gradient descent.

# %%
rng = torch.Generator().manual_seed(3)
t = torch.rand(60, generator=rng).sort().values
truth = {"K": 1.0, "e": 0.6, "omega": 0.8, "tau": 0.35}


def detached(M, e):
    return torch.as_tensor(solve_kepler(M.detach().numpy(), e.detach().numpy()))


actual = velocity(t, *(torch.tensor(value) for value in truth.values()), detached)
measured = actual + 0.03 * torch.randn(60, generator=rng)


def fit(kepler, steps=400):
    """K, e, ω and τ after gradient descent, and the losses on the way."""
    raw = torch.tensor([0.7, -0.8, 0.3, 0.25], requires_grad=True)  # σ(-0.8) = 0.31
    optimizer, losses = torch.optim.Adam([raw], lr=0.02), []
    for _ in range(steps):
        K, squeezed, omega, tau = raw
        loss = (velocity(t, K, squeezed.sigmoid(), omega, tau, kepler) - measured).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.sqrt().item())
    found = raw.detach().clone()
    found[1].sigmoid_()
    return found, losses


cut, cut_losses = fit(detached)
print(f"typical error after   1 step:  {cut_losses[0]:.2f}")
print(f"typical error after 400 steps: {cut_losses[-1]:.2f}; the measurements' own is 0.03")
for name, value, found in zip(truth, truth.values(), cut, strict=True):
    print(f"{name:6} true {value:.2f}  fitted {found:.2f}")

# %% [markdown]
# It falls, it flattens out, nothing has raised. The orbit is wrong. $\tau$ has not moved at all:
# the only way from $\tau$ to the loss leads through the solver. $e$ has moved, which is worse: it
# occurs three more times outside the solver, those paths are whole, and so its gradient is
# *incomplete* and looks like one. An optimizer follows whatever it gets.
#
# **Common belief: "`.detach().numpy()` is how one calls NumPy."** It is how one tells autograd that
# what comes back is a constant. The error message names the way to silence it. That the result is
# right, it does not say.

# %% [markdown]
# ## The whole thing, working
#
# A Function may compute its value with whatever it likes, and says itself how a gradient goes back.
# For that we need the derivatives of $E$, although no formula for $E$ exists. Differentiate
# Kepler's equation itself, both sides, with $E$ depending on $M$ and $e$:
#
# $$dE - e \cos E\, dE - \sin E\, de = dM \quad\Longrightarrow\quad
# dE = \frac{dM + \sin E \, de}{1 - e \cos E} .$$


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


whole, whole_losses = fit(Kepler.apply)
print(f"typical error after 400 steps: {whole_losses[-1]:.2f}")
for name, value, found in zip(truth, truth.values(), whole, strict=True):
    print(f"{name:6} true {value:.2f}  fitted {found:.2f}")

# %% jupyter={"source_hidden": true}
with figure(columns=2, height=3.6) as (watched, orbit):
    watched.semilogy(cut_losses, color=ORANGE)
    watched.semilogy(whole_losses, color=BLUE)
    watched.axhline(0.03, color=GRAY, linestyle="--", linewidth=1)
    watched.set(title="what one watches", xlabel="step", ylabel="typical error", ylim=(0.02, 1.2))
    note(watched, "the solver detached", (170, 0.42), ORANGE)
    note(watched, "the solver in a Function", (170, 0.05), BLUE)
    note(watched, "noise of the measurements", (5, 0.0235), GRAY)

    nights = torch.linspace(0, 1, 300)
    orbit.plot(t, measured, "o", color=GRAY, markersize=3)
    for parameters, color, dash in ((cut, ORANGE, "--"), (whole, BLUE, "-")):
        orbit.plot(nights, velocity(nights, *parameters, detached), color=color, linestyle=dash)
    orbit.set(title="the star's velocity", xlabel="time [periods]", ylabel="velocity")

# %% [markdown]
# Fifteen lines, and the solver stays SciPy's. `backward` does not call it, does not know how many
# steps it took, and would be the same for any other solver. Below, something smaller that needs
# $E$: the planet's distance from the star, $1 - e \cos E$, with one parameter. In the upper picture
# the way from $e$ through the solver is missing. Step through with → and ←.


# %%
def distance(kepler):
    """The planet's distance from the star, 1 - e cos E, at M = 1."""
    return lambda e: 1 - e * kepler(torch.tensor(1.0), e).cos()


flows = {"solver detached": distance(detached), "solver in a Function": distance(Kepler.apply)}
compare_flows(flows, torch.tensor(0.6))

# %% [markdown]
# ## NumPy and SciPy inside a Function
#
# What every such Function has to see to:
#
# | | |
# | --- | --- |
# | in | `x.numpy(force=True)`: detached, from any device (bfloat16: `.float()` first) |
# | out | `torch.as_tensor(y, dtype=x.dtype, device=x.device)`: many solvers return float64 |
# | memory | both calls *share* it on the CPU: who writes into the array writes into the tensor |
# | backward | in PyTorch operations on saved inputs and outputs: differentiable again |
#
# And if the derivative, too, is SciPy's? **Common belief: "a gradient that NumPy computes is as
# good as any."** Once. The Bessel function $J_0$ describes a drum's vibration, $J_0' = -J_1$, and
# SciPy has both. (`torch.special.bessel_j0` exists; up to PyTorch 2.14 it returns a result
# without a graph, without a word, from 2.15 on one with a graph.)


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
# The slope came out of NumPy, and to autograd it is a constant: the second derivative is wrong in
# silence (lesson 06). The repair is to let `backward` call *Functions*. All Bessel functions of
# integer order have one rule, $J_n' = \tfrac12 (J_{n-1} - J_{n+1})$, so one Function with the order
# as an argument closes the circle and is differentiable any number of times:


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
# Back to Kepler. Could one not write the solver in PyTorch and let autograd record it? One can. The
# oldest solver for this equation is also the shortest: start anywhere and repeat $E \leftarrow M +
# e \sin E$. Each round shrinks the error by at least the factor $e$. Autograd records every round,
# and keeps what it needs of each.


# %%
def unrolled(rounds):
    def solve(M, e):
        E = M
        for _ in range(rounds):
            E = M + e * E.sin()
        return E

    return solve


nights = torch.linspace(0.1, 6.2, 1000, requires_grad=True)
eccentricity = torch.tensor(0.9, requires_grad=True)
for rounds in (10, 50, 200):
    kept = kept_bytes(unrolled(rounds), nights, eccentricity, anyway=True)
    print(f"{rounds:3} rounds recorded: {kept / 1000:7,.0f} kB kept")
kept = kept_bytes(Kepler.apply, nights, eccentricity, anyway=True)  # NumPy made what it keeps
print(f"Function:            {kept / 1000:7,.0f} kB kept")

# %% [markdown]
# Two vectors a round against one in all. For a thousand nights that is a few megabytes; for a net
# whose layer is a solver it is the difference between fitting into memory and not. Here is where
# those bytes live, for eight rounds and the Function:

# %%
memory_timeline(
    {
        "eight rounds": lambda M, e: unrolled(8)(M, e).square().mean(),
        "Function": lambda M, e: Kepler.apply(M, e).square().mean(),
    },
    nights.detach()[::10],
    torch.tensor(0.5),
)

# %% [markdown]
# ### Stopped early
#
# *In depth: which gradient is better while the solver is not yet at its solution. In short: the
# implicit one; and one recorded round alone never becomes right.*
#
# **Common belief: "the recorded gradient is the exact one, the implicit one an approximation."**
# Stop the solver early, after $k$ rounds. Then $E_k$ is a little wrong, and both gradients are:
# the recorded one is the exact derivative of the wrong $E_k$, the implicit one is the formula,
# evaluated at the wrong place. Which is closer to the derivative of the true $E$?

# %%
M, e = torch.tensor(1.0), torch.tensor(0.8, requires_grad=True)
E = detached(M, e)
true_slope = (E.sin() / (1 - e * E.cos())).item()

errors = {"recorded": [], "implicit": [], "last round only": []}
for k in range(1, 31):
    E_k = unrolled(k)(M, e)
    recorded = torch.autograd.grad(E_k, e)[0].item()
    E_k = E_k.detach()
    implicit = (E_k.sin() / (1 - e * E_k.cos())).item()
    for name, slope in zip(errors, (recorded, implicit, E_k.sin().item()), strict=True):
        errors[name].append(abs(slope - true_slope) / true_slope)
for name, found in errors.items():
    print(f"{name:15} after 5 rounds {found[4]:.0e}, after 10 {found[9]:.0e}")

# %% jupyter={"source_hidden": true}
with figure(width=6.8, height=3.4) as (axes,):
    for (_, found), color in zip(errors.items(), (ORANGE, BLUE, GREEN), strict=True):
        axes.semilogy(range(1, 31), np.maximum(found, 1e-16), color=color)
    axes.set(title="gradient of an unfinished solver", xlabel="rounds", ylabel="relative error")
    note(axes, "through the last round only", (14, 4e-3), GREEN)
    note(axes, "recorded", (11.5, 2e-7), ORANGE)
    note(axes, "implicit", (5, 1e-9), BLUE)

# %% [markdown]
# From the second round on the implicit gradient is ahead, after ten by a factor of about sixty: the
# recorded one is short of the rounds that were not made. And it costs one division, against $k$
# stored rounds. The third curve is a shortcut that is often recommended, to run the solver without
# a graph and record one last round. It is cheap and never becomes right: it leaves out the division
# by $1 - e \cos E$.

# %% [markdown]
# ## One linear solve
#
# The recipe in general. A solver returns a $y$ for which $F(y, \theta) = 0$, a system of $n$
# equations with $n$ unknowns. Where $\theta$ changes, $y$ changes so that $F$ stays zero:
#
# $$\frac{\partial F}{\partial y}\, dy + \frac{\partial F}{\partial \theta}\, d\theta = 0
# \quad\Longrightarrow\quad
# \frac{dy}{d\theta} = - \Bigl(\frac{\partial F}{\partial y}\Bigr)^{-1}
# \frac{\partial F}{\partial \theta} .$$
#
# That is the *implicit function theorem*; it holds where $\partial F/\partial y$ is invertible.
# `backward` needs $g^\top \frac{dy}{d\theta}$ and never the matrix: first one linear system with
# the *transposed* matrix, then one vector-Jacobian product.
#
# $$\Bigl(\frac{\partial F}{\partial y}\Bigr)^{\!\top} u = g, \qquad
# \frac{\partial L}{\partial \theta} = - u^\top \frac{\partial F}{\partial \theta} .$$
#
# The system is linear however nonlinear $F$ is. How the solver got to $y$ plays no role, so nothing
# of it is kept. For Kepler, $F = E - e\sin E - M$: the "matrix" is the number $1 - e\cos E$.
#
# ### Checkpoint 1
#
# A solver returns the real root $y$ of $y^3 + y = \theta$. At $\theta = 2$ that is $y = 1$. The
# loss is $4y^2$. What does $\theta$ get?


# %%
class Root(Function):
    @staticmethod
    def forward(ctx, theta):
        y = scipy.optimize.brentq(lambda y: y**3 + y - theta.item(), -10, 10)
        y = torch.as_tensor(y, dtype=theta.dtype, device=theta.device)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output / (3 * y**2 + 1)


theta = torch.tensor(2.0, requires_grad=True)
(4 * Root.apply(theta) ** 2).backward()

predict(..., theta.grad)

# %% [markdown]
# <details><summary>Why</summary>
#
# $\partial L/\partial y = 8y = 8$ arrives. $F = y^3 + y - \theta$ has $\partial F/\partial y =
# 3y^2 + 1 = 4$ and $\partial F/\partial\theta = -1$. So $u = 8/4 = 2$, and $\theta$ gets 2.
#
# </details>

# %% [markdown]
# ## A fixed-point layer
#
# Many solvers repeat something until it no longer changes: $z = f(z, \theta)$. Equilibrium layers,
# which run a layer of a net to its fixed point, belief propagation, value iteration. With $F = z -
# f(z, \theta)$ and $J = \partial f/\partial z$ the linear system of the last section reads
#
# $$(I - J^\top)\, u = g \qquad\text{or}\qquad u = g + J^\top u ,$$
#
# which is a fixed point again, and it converges wherever the first one did, at the same rate. So
# `backward` needs no matrix and no linear solver: it repeats a vector-Jacobian product of $f$, and
# that is what autograd is good at. This Function takes any $f$, records a *single* call of it at
# the solution, and goes back through that call until $u$ settles.


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
# (The last lines of `backward` work on detached copies, a second derivative through them would be
# silently wrong, and so it refuses one: lesson 06.)
#
# As an example a market. Sixteen shops; each sets its price by its own cost and by what its
# neighbors charge, $p = \text{cost} + \tfrac12 \tanh(W p)$. Which shop's cost moves the average
# price the most?

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
    torch.autograd.grad(prices(cost, neighbors).mean(), cost)[0]
    for prices in (repeated(200), settled_prices)
)
print("the gradient of 200 recorded rounds:", torch.allclose(recorded, implicit))
for name, prices in (("200 rounds", repeated(200)), ("fixed point", settled_prices)):
    print(f"{name:12} {kept_bytes(prices, cost, neighbors):6,} bytes kept")

# %% [markdown]
# One vector, against two for each of 200 rounds. It would stay at one vector if the solver took a
# million rounds, or if it were Newton's or Anderson's method, or somebody else's binary. (Such
# solvers also arrive where repeating $f$ runs away. There the loop for $u$ runs away too, and
# $(I - J^\top)\,u = g$ needs a linear solver.)
#
# What it takes in exchange: the solution must *be* one. `settled` raises where it does not settle;
# a solver that returns its best guess after 20 rounds makes a gradient of a point that solves
# nothing.

# %% [markdown]
# ## A linear system
#
# *In depth: this section, with checkpoint 2: a sparse matrix, and a backward that calls its own
# Function. Exercise 3 needs it.*
#
# $A x = b$ is the implicit function theorem's simplest case, $F = A x - b$:
#
# $$A^\top u = g, \qquad \frac{\partial L}{\partial b} = u, \qquad
# \frac{\partial L}{\partial A} = - u\, x^\top .$$
#
# `torch.linalg.solve` does that already, for a dense $A$. But matrices that come from differential
# equations are sparse, and SciPy solves those in no time. Take a *tridiagonal* one: a diagonal, one
# below, one above. With 2000 unknowns a dense gradient of $A$ would be 4 million numbers, of which
# 6 thousand belong to something. The Function computes those: $-u_i x_j$, where $A$ has an entry
# $ij$. And the transposed matrix is the same with the two side diagonals exchanged, so that
# `backward` can call the Function itself, and the second derivative comes free.


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
# The mistake that everybody makes once: the same Function, and a `backward` that solves with $A$
# instead of $A^\top$. For a symmetric matrix, which is what one tests with, nothing is wrong. Ask
# the doctor about one that is not symmetric; then repair the line and run the cell again.


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
# `upper, diagonal, lower` in the call. The report names the gradient that is wrong and by how much;
# that the matrix was not transposed you see as soon as you exchange the two side diagonals in the
# test.
#
# </details>

# %% [markdown]
# ## A C++ operator, built on the spot
#
# When is C++ worth it? Not for anything that composes tensor operations: those run in C++ already.
# But for a *loop*, whose step needs the step before. The decayed running sum, at the heart of
# filters, moving averages, discounted rewards and linear recurrent nets:
#
# $$y_t = x_t + a\, y_{t-1} .$$
#
# Its gradient is known to us: $F_t = y_t - a\,y_{t-1} - x_t$ is a linear system with a diagonal and
# one below, so the transposed system runs the other way,
#
# $$u_t = g_t + a\, u_{t+1}, \qquad \frac{\partial L}{\partial x_t} = u_t, \qquad
# \frac{\partial L}{\partial a} = \sum_t u_t\, y_{t-1} .$$
#
# The same loop, backward in time. One operator with a switch serves both passes. Here is the
# source, a loop on plain pointers and a function of tensors around it, which sees to layout and
# dtype:

# %%
source = (SOURCES / "decayed_sum.cpp").read_text(encoding="utf-8")
print(source[: source.index("STABLE_TORCH_LIBRARY_FRAGMENT")].rstrip())

# %% [markdown]
# At its end stands the registration: a *schema*, which tells PyTorch what goes in and comes out,
# and an implementation for one *dispatch key*, which is chosen by where the tensors lie. There is
# no Python in it, and no pybind11.
#
# ```cpp
# STABLE_TORCH_LIBRARY_FRAGMENT(TORCH_EXTENSION_NAME, m) {
#   m.def("decayed_sum(Tensor x, float a, bool reverse) -> Tensor");
# }
#
# STABLE_TORCH_LIBRARY_IMPL(TORCH_EXTENSION_NAME, CPU, m) {
#   m.impl("decayed_sum", TORCH_BOX(&decayed_sum));
# }
# ```
#
# `build` compiles it by `torch.utils.cpp_extension.load`, and keeps what it has built: in the next
# call, and the next kernel, nothing is compiled. (A source that includes the well-known
# `torch/extension.h` takes the compiler twenty times as long, most of a minute: it contains all of
# PyTorch. The headers under `torch/csrc/stable` hold the part that stays the same from version to
# version, so that a library that was built once keeps running.)

# %%
try:
    kernel = build(SOURCES / "decayed_sum.cpp")
    print(kernel.decayed_sum(torch.ones(4), 0.5, False).tolist(), "in time")
    print(kernel.decayed_sum(torch.ones(4), 0.5, True).tolist(), "against time")
except BuildError as error:
    kernel = None
    print(error)

# %% [markdown]
# **Common belief: "it is a PyTorch operator now, and so it is differentiable."** Its result even
# says so:

# %%
if kernel:
    x = torch.ones(4, requires_grad=True)
    y = kernel.decayed_sum(x, 0.5, False)
    print("requires grad:", y.requires_grad)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        y.sum().backward()
    print("x.grad:", x.grad)
    print("warning: …", str(warned[0].message).split(": ")[1].split(". ")[0])

# %% [markdown]
# A node stands in the graph that passes nothing on. In a training loop the warning comes once and
# scrolls away. What makes it differentiable is the Function (or, in lesson 12's terms,
# `torch.library.register_autograd`):


# %%
class DecayedSum(Function):
    """y[t] = x[t] + a·y[t-1]; u[t] = g[t] + a·u[t+1], ∂L/∂x = u, ∂L/∂a = Σ u[t]·y[t-1]."""

    @staticmethod
    def forward(ctx, x, a, operator, reverse=False):
        y = operator(x, a.item(), reverse)
        ctx.save_for_backward(y, a)
        ctx.call = operator, reverse
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y, a), (operator, reverse) = ctx.saved_tensors, ctx.call
        u = DecayedSum.apply(grad_output, a, operator, not reverse)
        grad_a = None
        if ctx.needs_input_grad[1]:
            before, after = (u, y) if reverse else (y, u)
            grad_a = (before[..., :-1] * after[..., 1:]).sum()
        return u, grad_a, None, None


x = torch.randn(2, 6, generator=torch.Generator().manual_seed(0), requires_grad=True)
a = torch.tensor(0.7, requires_grad=True)
if kernel:
    print("gradcheck:    ", gradcheck(DecayedSum.apply, (x, a, kernel.decayed_sum)))
    print("gradgradcheck:", gradgradcheck(DecayedSum.apply, (x, a, kernel.decayed_sum)))
    print(diagnose(DecayedSum, (x, a, kernel.decayed_sum)))

# %% [markdown]
# ### Checkpoint 3
#
# Three inputs, all 1, and $a = 0.5$. The loss is the last sum, $y_2$. Which gradient does the
# *first* input get? (PyTorch does the steps one by one here, and needs no compiler; run your
# formula against time.)

# %%
x = torch.ones(3, requires_grad=True)
a = torch.tensor(0.5)
y_0 = x[0]
y_1 = x[1] + a * y_0
y_2 = x[2] + a * y_1
y_2.backward()

predict(..., x.grad[0])

# %% [markdown]
# <details><summary>Why</summary>
#
# $g = (0, 0, 1)$ arrives. Against time: $u_2 = 1$, $u_1 = 0 + 0.5$, $u_0 = 0 + 0.5 \cdot 0.5 =
# 0.25$.
#
# </details>

# %% [markdown]
# ### What the operator saves
#
# *In depth: nodes and time, counted against a loop in Python.*
#
# The loop in PyTorch makes two operations a step, each of them called, recorded,
# and called again in backward. Here is one row of a thousand steps, in nodes of the graph and in
# time; times depend on the machine, so only their ratio is asked for.


# %%
def looped(x, a):
    y, sums = torch.zeros(x.shape[:-1]), []
    for x_t in x.unbind(-1):
        y = x_t + a * y
        sums.append(y)
    return torch.stack(sums, -1)


def nodes(y):
    """How many nodes the graph of y has, leaves not counted."""
    found, todo = set(), [y.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in found and not hasattr(node, "variable"):
            found.add(node)
            todo += [before for before, _ in node.next_functions]
    return len(found)


def seconds(f, *inputs):
    """The fastest of five forward passes."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        f(*inputs)
        times.append(time.perf_counter() - start)
    return min(times)


x = torch.randn(1, 1000, generator=torch.Generator().manual_seed(1), requires_grad=True)
a = torch.tensor(0.9, requires_grad=True)
if kernel:
    operator = kernel.decayed_sum
    faster = seconds(looped, x, a) / seconds(DecayedSum.apply, x, a, operator)
    print("the same values:", torch.allclose(looped(x, a), DecayedSum.apply(x, a, operator)))
    print("nodes of the loop:", nodes(looped(x, a)))
    print("nodes of the Function:", nodes(DecayedSum.apply(x, a, operator)))
    print("more than twenty times as fast:", faster > 20)

# %% [markdown]
# ### When the source is wrong
#
# *In depth: what the compiler tells you, and what only `diagnose` does: a layout that you took for
# granted. Exercise 4 needs it.*
#
# Building goes on in a process of its own, and what the compiler says comes back as one sentence
# about *your* line. A misspelled variable:

# %%
misspelled = source.replace("sum = x[t]", "sun = x[t]")
try:
    build(misspelled)
except BuildError as error:
    print(f"line {error.line}:", misspelled.splitlines()[(error.line or 1) - 1].strip())

# %% [markdown]
# (`print(error)` adds the compiler's own words, which differ from one compiler to the next.)
#
# A compiler sees types. What it does not see is memory. `x.data_ptr()` is the address of the first
# element, and the loop assumes that the second lies behind it. Take out the `contiguous` that
# guarantees this, and build again. `gradcheck` has no objection. And yet `grad_output` is a view in
# every net that has a transpose or a `.sum()` behind the operator, and users slice their inputs:

# %%
x = torch.randn(2, 6, generator=torch.Generator().manual_seed(0), requires_grad=True)
if kernel:
    careless = build(source.replace("torch::stable::contiguous(given)", "given"), name="careless")
    print("gradcheck:", gradcheck(DecayedSum.apply, (x, a, careless.decayed_sum)))
    print(diagnose(DecayedSum, (x, a, careless.decayed_sum)))

# %% [markdown]
# ## On a GPU: CUDA C++ and Triton
#
# *In depth: skip it unless you write kernels for a GPU.*
#
# The same operator in CUDA C++ differs where the work is handed out: every row gets a thread, and
# `<<<blocks, threads, 0, stream>>>` starts them.

# %%
cuda_source = (SOURCES / "decayed_sum.cu").read_text(encoding="utf-8")
begin, end = (cuda_source.index(mark) for mark in ("template", "STABLE_TORCH_LIBRARY_FRAGMENT"))
print(cuda_source[begin:end].rstrip())

# %% [markdown]
# The next cell builds it with `nvcc`, runs the Function of the last section with it, unchanged, and
# compares with the CPU. Without a GPU, or without the CUDA toolkit, it says so and does nothing.
# (The source has been compiled with CUDA 13.0. On a GPU it has not been run where these pages were
# written; if you have one, this cell is its test.)

# %% tags=["nbval-ignore-output"]
on_gpu = None
if not torch.cuda.is_available():
    print("No GPU here: the cell would build decayed_sum.cu and compare it with the C++ operator.")
else:
    try:
        on_gpu = build(SOURCES / "decayed_sum.cu", name="on_gpu").decayed_sum
        x = torch.randn(1000, 300, device="cuda", requires_grad=True)
        given = [on_gpu, *([kernel.decayed_sum] if kernel else [])]
        y = DecayedSum.apply(x, a, on_gpu)
        print("values: ", torch.allclose(y.cpu(), DecayedSum.apply(x.cpu(), a, given[-1]).cpu()))
    except BuildError as error:
        print(error)

# %% [markdown]
# **Triton** writes a kernel in Python, for whole blocks of numbers instead of single threads, and
# compiles it when it is called. A loop over time would use one lane of many. But two stretches of
# time can be *joined*: a stretch that multiplies what comes in by $A$ and adds $S$, followed by one
# with $A'$ and $S'$, is a stretch with $A A'$ and $A' S + S'$. Joining is associative, so the
# stretches can be joined pairwise, in $\log_2 T$ rounds in place of $T$ steps: an *associative
# scan*.

# %%
triton_source = (SOURCES.parent / "triton_decayed_sum.py").read_text(encoding="utf-8")
begin, end = (triton_source.index(mark) for mark in ("@triton.jit", "def triton_decayed_sum"))
print(triton_source[begin:end].rstrip())

# %% [markdown]
# It is an operator like the others, and goes into the same Function: `DecayedSum.apply(x, a,
# triton_decayed_sum)`. Triton comes with the builds of PyTorch for CUDA.

# %% tags=["nbval-ignore-output"]
if torch.cuda.is_available() and importlib.util.find_spec("triton"):
    from autograd_course.lesson import triton_decayed_sum

    x = torch.randn(100, 300, device="cuda", requires_grad=True)
    y, truth = DecayedSum.apply(x, a, triton_decayed_sum), looped(x.cpu(), a)
    print("Triton agrees with the loop:", torch.allclose(y.cpu(), truth))
else:
    print("No GPU or no Triton here: the cell would run the kernel and compare it with the loop.")

# %% [markdown]
# Which is faster, and when? That is measured, not told, and it belongs to a device. The cell below
# shows the figures that lie in `benchmarks/results`, each with the device that it was measured on;
# where nobody has put any there, it says that too:

# %%
print(benchmark_results("decayed_sum"))

# %% [markdown]
# ## Streams and devices
#
# *In depth: for operators that others will call, on a GPU or under `torch.compile`.*
#
# A kernel of your own is called in company. What PyTorch's own operators do without being asked:
#
# | rule | where | otherwise |
# | --- | --- | --- |
# | PyTorch's *current stream* | `aoti_torch_get_current_cuda_stream` | reads unfinished inputs |
# | the *tensor's* GPU | `DeviceGuard`, `torch.cuda.device(x.device)` | illegal access on GPU 1 |
# | outputs beside the inputs | `empty_like`, `device=x.device` | crashes where nobody tested it |
# | ask for launch errors | `STD_CUDA_KERNEL_LAUNCH_CHECK` | they appear at some later call |
# | do not wait | no `.item()`, no `.cpu()` | the GPU idles while Python waits |
# | memory from PyTorch | `empty_like`, not `cudaMalloc` | waits, and the allocator does not know |
#
# The Function above breaks one of them: `a.item()` waits for the GPU where `a` lies there. The
# Triton version would take the tensor. NumPy breaks all of them by its nature: a SciPy Function on
# a GPU is right, if it copies as above, and slow.
#
# One device is everywhere, and shows missing rules without a GPU: `meta`, whose tensors have shape
# and dtype and no numbers. `torch.compile` and `torch.export` run on it. An operator that only has
# an implementation for `CPU` does not:

# %%
if kernel:
    without_numbers = torch.empty(2, 3, device="meta")
    try:
        kernel.decayed_sum(without_numbers, 0.5, False)
    except NotImplementedError as error:
        print("…", str(error).split(": ")[1].split(". ")[0])

    @torch.library.register_fake(f"{kernel.name}::decayed_sum")
    def shape_only(x, a, reverse):
        return torch.empty_like(x, memory_format=torch.contiguous_format)

    print(kernel.decayed_sum(without_numbers, 0.5, False).shape)

# %% [markdown]
# ## A gradient that is only approximate
#
# *In depth: for a program that you can only call. In short: choose the step by measuring, and state
# the error.*
#
# Last, code of which we know nothing: a program that simulates a ball's flight through air and
# prints how far it went, in meters with three decimals. No equation, no solver to look into. What
# is left is to call it again: $\frac{\partial d}{\partial \theta} \approx \frac{d(\theta + h) -
# d(\theta - h)}{2h}$, two calls for each parameter.
#
# **Common belief: "the smaller the step, the better the derivative."** Measured against the
# simulation without rounding, the worst of three angles:


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


angles = (0.5, 0.6, 0.65)
true_slopes = [slope(exact_flight, 1e-3, angle) for angle in angles]
steps = [10**-k for k in (5, 4.5, 4, 3.5, 3, 2.5, 2, 1.5, 1, 0.5)]
off = [
    max(abs(slope(flight, h, at) / true - 1) for at, true in zip(angles, true_slopes, strict=True))
    for h in steps
]
for h, error in zip(steps[::2], off[::2], strict=True):
    print(f"step {h:.0e}: off by {error:.1%}")

# %% jupyter={"source_hidden": true}
with figure(width=6.8, height=3.2) as (axes,):
    axes.loglog(steps, off, color=BLUE, marker="o")
    axes.set(title="a derivative by differences", xlabel="step h [rad]", ylabel="relative error")
    note(axes, "rounding, divided by h", (1.5e-4, 0.5), GRAY)
    note(axes, "curvature", (2.2e-2, 0.1), GRAY)

# %% [markdown]
# Too small a step divides rounding by next to nothing, too large a one measures another place. For
# central differences of a value known to $\varepsilon$ the best step is of the order of
# $\sqrt[3]{\varepsilon}$, here $\sqrt[3]{10^{-3}/50} \approx 0.03$. So be it, written down where
# the next reader finds it:


# %%
class Flight(Function):
    """Distance flown, by an external program; the gradient by central differences, good to 1 %.

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
# `gradcheck` takes differences itself, with a step of $10^{-6}$, and of a rounded value those are
# noise: the test has to know the precision of what it tests. The mechanics (arity, `grad_output`
# as a factor, each input's own gradient) are tested as always, and the size of the error is known.
# Is it good enough? That depends on the use, and the use can be run. A hoop hangs 50 m away:

# %%
angle, speed = (torch.tensor(value, requires_grad=True) for value in (0.6, 30.0))
for _ in range(8):
    miss = Flight.apply(angle, speed) - 50
    by_angle, by_speed = torch.autograd.grad(miss, (angle, speed))
    with torch.no_grad():  # Newton's step, the shortest that closes the gap
        scale = miss / (by_angle**2 + by_speed**2)
        angle -= scale * by_angle
        speed -= scale * by_speed
print(f"after eight steps it misses by {abs(miss.item()):.3f} m")

# %% [markdown]
# Verify the mechanics, quantify the error, decide by use, document. A gradient that is 1 % off
# still goes downhill; the solution that it finds is no worse, only the way is. Where the gradient
# *is* the result, a sensitivity in a report, 1 % is 1 %.

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
#         y = anything(theta.numpy(force=True))        # NumPy, SciPy, C++, a program
#         y = torch.as_tensor(y, dtype=theta.dtype, device=theta.device)
#         ctx.save_for_backward(y, theta)
#         return y
#
#     @staticmethod
#     def backward(ctx, grad_output):
#         y, theta = ctx.saved_tensors
#         u = torch.linalg.solve(dF_dy(y, theta).mT, grad_output)
#         return -u @ dF_dtheta(y, theta)
#
# operators = build(Path("mine.cpp"))                  # torch.ops.<name>, without autograd
# ```
#
# | | |
# | --- | --- |
# | `.detach().numpy()` | a constant: gradients through other paths stay, incomplete |
# | into NumPy and back | `numpy(force=True)`; dtype and device of the input; shared memory |
# | NumPy in `backward` | right once; call Functions there, and it is right twice |
# | a solver recorded | memory grows with its rounds; needs more rounds for the same accuracy |
# | $F(y, \theta) = 0$ | $F_y^\top u = g$, then $-u^\top F_\theta$ |
# | $z = f(z, \theta)$ | $u = g + J^\top u$, by repeating a VJP of one call |
# | $A x = b$ | $A^\top u = g$, $\partial b = u$, $\partial A = -u x^\top$ where $A$ has entries |
# | a C++ operator | no autograd, no layout, no meta device, unless you write them |
# | on a GPU | current stream, tensor's device, ask for launch errors, do not wait |
# | approximate | choose the step by measuring; state the error; test at that precision |

# %% [markdown]
# ## Where next
#
# [The exercises of this lesson](../exercises/13_external_code.ipynb): a special function of SciPy,
# a fixed-point layer, a linear solve, and an operator in C++ that you write yourself.
#
# [Lesson 15](15_ship_it.ipynb) takes Functions out of Python altogether: export, ONNX, and what
# becomes of a custom gradient on the way.

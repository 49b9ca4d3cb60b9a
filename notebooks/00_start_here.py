# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/00_start_here.ipynb)
#
# # 00 · Start here
#
# A custom `autograd.Function` is a promise to PyTorch: *here is a value, and this is how a
# gradient goes back through it.* PyTorch does not check the promise. This course is about making
# it, keeping it, and being able to prove that you did.
#
# **You will** check that everything is in place, meet the grader and the visualizer, and see the
# way ahead. **You need** to have trained a model in PyTorch once. **It takes** 15 minutes.
#
# Everything here is a notebook: put the cursor in a cell, press Shift+Enter, read what it prints.

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

# %% [markdown]
# ## Is everything in place?
#
# Each line should begin with `OK`. Where one says `REPAIR`, the line below it says how. The same
# cell works in JupyterLab and in Colab.

# %% tags=["nbval-ignore-output"]
from autograd_course.lesson import checkup

checkup()

# %% [markdown]
# ## Does the visualizer answer?
#
# The lessons hold live pictures of real autograd graphs. Here is a small one, $L = (x \cdot y)^2$
# at $x = 2$, $y = 3$. First the values travel from left to right; then, beginning with a 1 at the
# loss, the gradients (marked ∂) travel back. The picture opens at the end of that journey, and the
# first → starts it from the beginning. Click on a node of the picture, or reach it with Tab; then:
#
# | key | does |
# | --- | --- |
# | → and ← | one step forward, one step back |
# | Home, End | to the first step, to the last |
# | Space | play, pause |
# | ↓ and ↑ | to the next node, to the one before |
# | Enter or a click, Esc | open the node, close it: its values, what its Function saved |
#
# The buttons below the picture do the same for the mouse, and a slider for each input changes its
# value: drag $x$, and every number follows.

# %%
import torch

from autograd_course import functions, gradient_flow


def loss(x, y):
    return functions.Square.apply(x * y)


gradient_flow(loss, torch.tensor(2.0), torch.tensor(3.0))

# %% [markdown]
# If you see a picture but no buttons, the cell has not been run in this session: run it. If it
# stays still after that, widgets are switched off in your front end; the lessons remain readable,
# since every picture is also saved in the notebook, and the grader does not depend on them.

# %% [markdown]
# ## How grading works
#
# In an exercise you write a Function and pass it to `grade`, with the exercise's name. The heading
# of an exercise states its points, its difficulty, and the minutes that it takes if you have just
# read the lesson, from reading the task to one or two reports of the grader. `grade` tells
# four things apart: *passed*, *not attempted*, *wrong*, and *the grader failed*, which is never
# your fault. To see a wrong answer, let us give one. The exercise `square` asks for $y = x^2$;
# this learner has doubled instead, and tried it at $x = 2$, where it makes no difference:

# %%
from torch.autograd import Function

from autograd_course import grade, hint, progress


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad_output):
        return 2 * grad_output


grade("square", Square)

# %% [markdown]
# The answer does not stop at "wrong". It names the *rule* that was broken, shows an *example*, one
# element with the value that came and the value expected, and says what to read. (More about a rule
# says `explain("forward-mismatch")`, from `autograd_course`, or `autograd-course explain
# forward-mismatch` in a terminal.) An exercise that you have not begun is *not attempted*:


# %%
class NotYet(Function):
    @staticmethod
    def forward(ctx, x):
        raise NotImplementedError


grade("square", NotYet)

# %% [markdown]
# ### Hints
#
# Each exercise has three, from a nudge to nearly the answer. Every call gives the next one. They
# cost no points; try for ten minutes before you take the first.

# %%
hint("square")

# %% [markdown]
# ### Progress
#
# Results are kept in one small file in your home folder (on Colab: as long as the machine lives).
# What was passed once stays passed. The attempt and the hint above are in it already; `from
# autograd_course.grader import reset` and `reset("square")` forgets them. At the end stands what to
# review: the rules that you missed most, and questions of the knowledge checks not yet right.

# %%
progress()

# %% [markdown]
# ### Asking outside the exercises
#
# The grader's judgement is yours to use on any Function, in or outside this course. `diagnose`
# takes a Function and an example of its inputs:

# %%
from autograd_course import diagnose

diagnose(Square, (torch.tensor([0.5, 2.0, 3.0]),), reference=lambda x: x**2)

# %% [markdown]
# ### Knowledge checks
#
# Each lesson ends in questions; here are two. A wrong answer explains itself and gives nothing else
# away; try again.

# %%
from autograd_course.visualize import knowledge_check

knowledge_check("00")

# %% [markdown]
# ## The way ahead
#
# | | lesson | what it is for |
# | --- | --- | --- |
# | 00 | Start here | set-up, grader, visualizer |
# | 01 | [A Function from end to end](01_template.ipynb) | write, test, or do without |
# | 02 | [The rules of ctx](02_ctx_rules.ipynb) | what is kept, and what goes wrong |
# | 03 | [Gradient patterns](03_gradient_patterns.ipynb) | copies and sums, products, softmax |
# | 04 | [The debugging clinic](04_debugging_clinic.ipynb) | code that you did not write |
# | 05 | [The straight-through estimator](05_straight_through.ipynb) | steps without slope |
# | 06 | [Gradients of gradients](06_double_backward.ipynb) | derivatives lost in silence |
# | 07 | [The same gradient in less memory](07_memory_patterns.ipynb) | keep less, rebuild |
# | 08 | [The attention challenge](08_attention_challenge.ipynb) | formula to tiles |
# | 09 | [More gradient patterns](09_more_patterns.ipynb) | stability, norms, convolution |
# | 11 | [Beyond eager](11_beyond_eager.ipynb) | `vmap`, `jvp`, `torch.compile`, operators |
# | 13 | [External code](13_external_code.ipynb) | SciPy, solvers, C++, kernels |
# | 15 | [Ship it](15_ship_it.ipynb) | export, ONNX, fewer bits |
#
# Two things to have at hand: the [cheat sheet](../docs/cheat_sheet.html), two pages for the wall
# ([PDF](../docs/cheat_sheet.pdf)), and the [index of error messages](../docs/error_messages.md),
# which finds a message for you: `explain(error)` with the exception or its text. And for the end,
# or to see where you stand, fifteen questions on all lessons and three essays:
# `knowledge_check("course")`. Another seed, as in `knowledge_check("course", seed=2)`, draws other
# questions.
#
# Each lesson is followed by an exercise notebook of the same number. Lessons run from top to
# bottom; their outputs are saved, so you can also just read.
#
# Next: [01 · A Function from end to end](01_template.ipynb).

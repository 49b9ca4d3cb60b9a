# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/00_start_here.ipynb)
#
# # 00 · Start here
#
# When you write a custom `autograd.Function`, you make PyTorch a promise: *here is a value, and
# this is how a gradient goes back through it.* PyTorch never checks that promise. This course
# teaches you to make it, to keep it, and to prove that you kept it.
#
# **You will** check your installation, repair your first Function, and meet the grader and the
# visualizer. **You need** to have trained a model in PyTorch once. **It takes** about 15 minutes.
#
# Every lesson is a notebook. Put the cursor in a cell, press Shift+Enter, and read what it prints.

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
# ## Check your installation
#
# Every line should begin with `OK`. If a line says `REPAIR`, the line below it tells you what to
# do. This cell works in JupyterLab and on Colab.

# %% tags=["nbval-ignore-output"]
from autograd_course.lesson import checkup

checkup()

# %% [markdown]
# ## Repair your first Function
#
# In an exercise you write a Function and pass it to `grade`, together with the name of the
# exercise. The exercise `square` asks for $y = x^2$. Here is the answer of a learner who doubled
# $x$ instead, and tested it at $x = 2$, where both give 4. Run the cell and read the report.

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
# The report says more than "wrong". It names the *rule* that the answer breaks, shows one element
# where the value is wrong, and tells you what to read. `explain("forward-mismatch")` from
# `autograd_course` tells you more about the rule.
#
# **Your turn.** Change one character in `forward` so that it computes the square, and run the cell
# again. The report now complains about `backward`: it still returns the gradient of $2x$. You can
# leave it like that. Lesson 01 shows you how to write `backward`.
#
# `grade` has two more verdicts besides *wrong* and *passed*. An exercise that you have not begun is
# *not attempted*, and *the grader failed* means that the mistake is ours and not yours.


# %%
class NotYet(Function):
    @staticmethod
    def forward(ctx, x):
        raise NotImplementedError


grade("square", NotYet)

# %% [markdown]
# ## Watch a gradient flow
#
# The lessons contain live pictures of real autograd graphs. Here is a small one: $L = (x \cdot
# y)^2$ at $x = 2$, $y = 3$. First the values travel from left to right. Then the gradients, which
# are marked with ∂, travel back from the loss. The picture opens at the end of the journey. Press →
# to start from the beginning, and drag the slider of $x$ to change every number.
#
# | key | what it does |
# | --- | --- |
# | → and ← | go one step forward or back |
# | Home and End | go to the first or the last step |
# | Space | play or pause |
# | ↓ and ↑ | select the next or the previous node |
# | Enter or a click | open the node, with its values and what its Function saved |
# | Esc | close the node |
#
# If you prefer the mouse, use the buttons below the picture.

# %%
import torch

from autograd_course import functions, gradient_flow


def loss(x, y):
    return functions.Square.apply(x * y)


gradient_flow(loss, torch.tensor(2.0), torch.tensor(3.0))

# %% [markdown]
# If you see a picture without buttons, you have not run the cell in this session yet. If the
# buttons do not appear after that, your notebook application does not show widgets. You can still
# take the course, because every picture is saved in the notebook and the grader needs no widgets.

# %% [markdown]
# ## Get a hint
#
# Each exercise has three hints, from a nudge to almost the answer. Every call shows the next one.
# Hints cost no points. Try for ten minutes before you take the first.

# %%
hint("square")

# %% [markdown]
# ## See your progress
#
# The course saves your results in a small file outside the course folder. On Colab the file lasts
# as long as the machine. What you have passed stays passed. Your attempt and your hint are already
# in the table below. The last part of the table tells you what to review: the rules that you break
# most often, and the quiz questions that you have not answered correctly yet.
#
# To reset an exercise, call `reset("square")` from `autograd_course.grader`.

# %%
progress()

# %% [markdown]
# ## Examine a Function of your own
#
# You can use the grader's judgment outside the exercises. `diagnose` takes any Function and an
# example of its inputs.

# %%
from autograd_course import diagnose

diagnose(Square, (torch.tensor([0.5, 2.0, 3.0]),), reference=lambda x: x**2)

# %% [markdown]
# ## Check your knowledge
#
# Each lesson ends with questions. Here are two. A wrong answer tells you why it is wrong and leaves
# the right one for you to find.

# %%
from autograd_course.visualize import knowledge_check

knowledge_check("00")

# %% [markdown]
# ## The way ahead
#
# <!-- lessons -->
# | | Lesson | What it is for |
# | --- | --- | --- |
# | | **Core path** | |
# | 00 | [Start here](00_start_here.ipynb) | set-up, grader, visualizer |
# | 01 | [A Function from end to end](01_template.ipynb) | write, test, or do without |
# | 02 | [The rules of ctx](02_ctx_rules.ipynb) | what is kept, and what goes wrong |
# | 03 | [Gradient patterns](03_gradient_patterns.ipynb) | copies and sums, products, softmax |
# | 04 | [The debugging clinic](04_debugging_clinic.ipynb) | code that you did not write |
# | 05 | [The straight-through estimator](05_straight_through.ipynb) | steps without slope |
# | 06 | [Gradients of gradients](06_double_backward.ipynb) | derivatives lost in silence |
# | 07 | [The same gradient in less memory](07_memory_patterns.ipynb) | keep less, rebuild |
# | 08 | [The attention challenge](08_attention_challenge.ipynb) | formula to tiles |
# | | **Electives** | |
# | 09 | [More gradient patterns](09_more_patterns.ipynb) | stability, norms, convolution |
# | 10 | [Sampling: gradients through a random choice](10_sampling.ipynb) | Gumbel, ReinMax |
# | 11 | [torch.func: vmap and forward mode](11_torch_func.ipynb) | transforms |
# | 12 | [torch.compile and custom operators](12_compile_and_operators.ipynb) | one graph |
# | 13 | [Solvers: differentiate the solution, not the steps](13_solvers.ipynb) | SciPy, equations |
# | 14 | [External code: C++, CUDA, Triton](14_external_code.ipynb) | C++, CUDA, Triton |
# | 15 | [Ship it](15_ship_it.ipynb) | export, ONNX, fewer bits |
# <!-- /lessons -->
#
# Each lesson has an exercise notebook with the same number. The outputs of the lessons are saved,
# so you can also read a lesson without running it.
#
# Keep two pages at hand: the [cheat sheet](../docs/cheat_sheet.html)
# ([PDF](../docs/cheat_sheet.pdf)) and the [index of error messages](../docs/error_messages.md).
# `explain(error)` finds the message for you, from an exception or its text. At the end of the
# course, `knowledge_check("course")` asks questions about all lessons.
#
# In each lesson, most sections are the core. Read the *extra* sections when you need them: an
# exercise with a star (★) names the extra section that it needs. The *reference* sections are
# there to be looked up. Take the lessons of the core path in order, and then the electives that you
# need.
#
# Next: [01 · A Function from end to end](01_template.ipynb).

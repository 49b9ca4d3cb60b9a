# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/00_start_here.ipynb)
#
# # 00 · Start here
#
# A custom `autograd.Function` has two methods: `forward` computes a value, and `backward` computes
# the gradient. PyTorch never checks that the gradient matches the value. In this course, you
# learn to write both methods, and to test that the gradient is right.
#
# **You will** check your installation, repair your first Function, and try the grader and a live
# picture. **You need** to have trained a PyTorch model before. **It takes** about 20 minutes.
#
# Every lesson is a notebook. To run a cell, click on it and press Shift+Enter.

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
# Run this cell. Every line should begin with `OK`. If a line says `REPAIR`, the line below it tells
# you what to do.

# %% tags=["nbval-ignore-output"]
from autograd_course.lesson import checkup

checkup()

# %% [markdown]
# ## Repair your first Function
#
# In an exercise, you write a Function and pass it to `grade`, together with the name of the
# exercise. The exercise `square` asks for $y = x^2$. Here is an answer from a learner who doubled
# $x$ instead of squaring it. The learner tested it only at $x = 2$, where both formulas give 4. Run
# the cell and read the report.

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
# The report names the *rule* that the answer breaks and shows one element where the value is wrong.
# The numbers are rounded to four digits. To read more about a rule, import `explain` from
# `autograd_course` and pass it the rule's name.
#
# **Your turn.** Change one character in `forward` so that it computes the square, and run the cell
# again. Now the report is about `backward`, which still returns the gradient of $2x$. You can leave
# it like that. Lesson 01 shows you how to write `backward`.
#
# There are two verdicts besides *wrong* and *passed*. An exercise that you have not started is *not
# attempted*. If you see *the grader failed*, the grader has a bug, and your answer is not at fault.


# %%
class NotYet(Function):
    @staticmethod
    def forward(ctx, x):
        raise NotImplementedError


grade("square", NotYet)

# %% [markdown]
# ## Watch a gradient flow
#
# The lessons contain interactive diagrams of real autograd graphs. Here is a small one:
# $L = (x \cdot y)^2$ at $x = 2$, $y = 3$. First, the values travel from left to right. Then the
# gradients, which are marked with ∂, travel back from the loss. When the picture opens, it shows
# the last step. Click on it and press → to start from the beginning. Drag the $x$ slider to change
# every number.
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
# You can also use the buttons below the picture.

# %%
import torch

from autograd_course import functions, gradient_flow


def loss(x, y):
    return functions.Square.apply(x * y)


gradient_flow(loss, torch.tensor(2.0), torch.tensor(3.0))

# %% [markdown]
# If you see a picture without buttons, run the cell. If there are still no buttons, your notebook
# application does not show widgets. You can take the course without them, because the notebooks
# contain every picture and the grader needs no widgets.

# %% [markdown]
# ## Get a hint
#
# Each exercise has three hints. The first one is small, and the third one almost gives the answer.
# Every call shows the next hint. Hints cost no points. Try for the stated time before you read
# the first one.

# %%
hint("square")

# %% [markdown]
# ## See your progress
#
# The course saves your results in a small file outside the course folder. On Colab, the file is
# lost when the machine stops. Once you have passed an exercise, it stays passed. The table below
# already shows your attempt and your hint. Its last part tells you what to review: the rules that
# you break most often, and the quiz questions that you have not answered correctly yet.
#
# To reset an exercise, call `reset("square")` from `autograd_course.grader`.

# %%
progress()

# %% [markdown]
# ## Examine a Function of your own
#
# You can also check a Function that is not an answer to an exercise. `diagnose` takes any Function
# and an example of its inputs.

# %%
from autograd_course import diagnose

diagnose(Square, (torch.tensor([0.5, 2.0, 3.0]),), reference=lambda x: x**2)

# %% [markdown]
# ## Check your knowledge
#
# Each lesson ends with questions. Here are two of them. If an answer is wrong, you will see why and
# can try again.

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
# | 00 | [Start here](00_start_here.ipynb) | installation, grader, widgets |
# | 01 | [A Function from end to end](01_template.ipynb) | write and test a Function |
# | 02 | [The rules of ctx](02_ctx_rules.ipynb) | what `ctx` saves, common mistakes |
# | 03 | [Gradient patterns](03_gradient_patterns.ipynb) | copies and sums, products, softmax |
# | 04 | [The debugging clinic](04_debugging_clinic.ipynb) | find bugs in existing code |
# | 05 | [The straight-through estimator](05_straight_through.ipynb) | gradients of steps |
# | 06 | [Gradients of gradients](06_double_backward.ipynb) | right second derivatives |
# | 07 | [The same gradient in less memory](07_memory_patterns.ipynb) | save less, recompute |
# | 08 | [The attention challenge](08_attention_challenge.ipynb) | from the formula to tiles |
# | | **Electives** | |
# | 09 | [More gradient patterns](09_more_patterns.ipynb) | stability, norms, convolution |
# | 10 | [Sampling: gradients through a random choice](10_sampling.ipynb) | Gumbel, ReinMax |
# | 11 | [torch.func: vmap and forward mode](11_torch_func.ipynb) | function transforms |
# | 12 | [torch.compile and custom operators](12_compile_and_operators.ipynb) | no graph breaks |
# | 13 | [Solvers: differentiate the solution, not the steps](13_solvers.ipynb) | SciPy, equations |
# | 14 | [External code: C++, CUDA, Triton](14_external_code.ipynb) | call your own kernels |
# | 15 | [Ship it](15_ship_it.ipynb) | export, ONNX, quantization |
# <!-- /lessons -->
#
# Take the lessons of the core path in order, and then the electives that you need. Each lesson has
# an exercise notebook with the same number. The notebooks contain the outputs, so you can also read
# a lesson without running it.
#
# Some sections are marked as *extra*. Read them when you need them. An exercise or a question that
# needs one has a star (★) and names the section. Sections that are marked as *reference* are for
# looking things up.

# %% [markdown]
# **Only 90 minutes?** This route is the shortest way to a Function that you have tested. In each
# lesson, first run the two code cells at the top.
#
# <!-- route -->
# - **Lesson 01:** read *Your first Function*, *What backward is asked for*, *Exercise 1: square*,
#   *A function that autograd cannot differentiate*, *What goes where on ctx*, *What backward
#   returns*, *A third method: setup_context*, *A template with an optional argument*, *Train it
#   in a module*, *What gradcheck cannot see*, *A test for your own project* (30 minutes). Solve
#   *Square* (7 minutes).
# - **Lesson 02:** read *A swing that does not go up*, *Separate forward and setup_context*,
#   *Exercise 1: snake* (15 minutes). Solve *Snake* (10 minutes).
# - **Lesson 03:** read *Copies forward, sums backward*, *Broadcasting is a copy*, *Exercise 2:
#   multiply with broadcasting* (15 minutes). Solve *Multiply with broadcasting* (15 minutes).
#
# Together, this takes about 92 minutes.
# <!-- /route -->

# %% [markdown]
# Two pages help you while you work: the [cheat sheet](../docs/cheat_sheet.html)
# ([PDF](../docs/cheat_sheet.pdf)) and the [index of error messages](../docs/error_messages.md).
# `explain(error)` shows the page of an error message. You can pass the exception or its text. At
# the end of the course, `knowledge_check("course")` asks questions about all lessons.
#
# Next: [01 · A Function from end to end](01_template.ipynb).

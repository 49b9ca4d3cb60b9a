"""Every constraint that an exercise states is graded.

``STATED`` pairs words from a statement with a wrong answer in ``answers`` that breaks only this
constraint. ``test_grade.py`` checks that the verdict names the constraint. The test fails if the
text after **Constraint** says more or less than the table.
"""

from __future__ import annotations

import re
from functools import cache

import pytest
from answers import WRONG
from answers.making import SOLUTIONS
from sampling import first_rows

from autograd_course.grader import CATALOGUE, grade
from tools.percent import read

# By exercise: words from its statement, and the mistake of a wrong answer in ``answers``.
STATED: dict[str, dict[str, str]] = {
    "scaled-sigmoid": {
        "save nothing but the output": "saves the input",
        "two numbers get `None`": "one gradient for three arguments",
    },
    "clipped-relu": {"either 0 at both or 1 at both": "1 at 0, 0 at the ceiling"},
    "linear": {
        "any number of leading dimensions": "thinks of two axes only",
        "or not given": "asks needs_input_grad for a bias that was left out",
    },
    "to-polar": {"returns the pair": "returns a list"},
    "snake": {"save nothing but $x$": "saves the sine too"},
    "strided-gain": {
        "only where `ctx.needs_input_grad` says": "asks nobody what is needed",
        "save no tensor": "saves in evaluation too",
        "a new tensor": "returns the slice",
    },
    "leaky-relu-in-place": {
        "overwrites and returns `x` itself": "not in place",
        "your code tells autograd about it": "does not mark",
    },
    "sort-with-indices": {"save nothing but the indices": "saves the input too"},
    "frozen-target": {
        "Target and weight get `None`": "zeros for target and weight",
        "computes nothing when the prediction requires no gradient": "does not ask",
    },
    "gelu": {
        "not the tanh approximation": "approximates by tanh",
        "no built-in `gelu`": "calls the built-in",
    },
    "swish": {
        "no more memory than $x$": "saves input and sigmoid",
        "No built-in `silu`": "calls the built-in",
    },
    "learnable-swish": {"with the shape of $\\beta$": "sums for β, and loses its axis"},
    "broadcast-multiply": {"returns gradients with the shapes of $x$ and $y$": "does not sum"},
    "log-sum-exp": {
        "Inputs in the thousands must not overflow": "does not shift",
        "its gradient must be 0": "does not guard in backward",
        "no built-in `logsumexp`": "calls the built-in",
    },
    "max-with-ties": {"maxima gets $1/c$ of the gradient": "gives the first winner all of it"},
    "batch-norm": {"no built-in normalization": "calls the built-in"},
    "soft-rank": {"no $n \\times n$ matrix is kept": "keeps all pairs"},
    "gather-rows": {"indices repeat": "assigns"},
    "plain-conv1d": {
        "no built-in convolution, either in forward": "calls the built-in",
        "or in backward": "calls the built-in gradients",
    },
    "conv1d": {
        "no built-in convolution, either in forward": "calls the built-in",
        "or in backward": "calls the built-in gradients",
    },
    "complex-multiply": {"gradient of a real input is real": "a complex gradient for a real input"},
    "gradient-reversal": {"a new tensor": "returns a view"},
    "sign-ste": {
        "whatever the sign of that zero": "the sign bit of zero",
        "the output at exactly 0 is +1": "0 at 0",
        "has the dtype of `x`": "whole numbers",
    },
    "clipped-sign": {"the gradient still passes": "stops at the bounds"},
    "ternary-ste": {
        "each clip still passes the gradient at exactly": "stops at the bounds",
        "has the shape of the threshold": "does not sum for the threshold",
    },
    "round-ste": {"is rounded to the even multiple": "rounds halves up"},
    "fake-quantize": {
        "where $x/s$ is exactly `low` or `high`": "stops at the bounds",
        "has the shape of $s$": "does not sum for the step",
    },
    "gumbel-hard": {
        "in the dtype of the logits": "whole numbers",
        "one of the largest is chosen": "marks all of the largest",
        "the soft sample": "stays soft",
    },
    "reinmax": {"do not contain the noise": "noise in the probabilities"},
    "binary-digits": {
        "only weights of −1 and +1": "a real last layer",
        "The weights were learned": "random features",
        "At least 90% of 400 digits": "a few steps",
    },
    "exp-twice": {"save nothing but the output": "saves the input"},
    "sinh-by-output": {"save nothing but the output": "saves the input"},
    "logsumexp-hessian": {"the Hessian is the one above": "saves the softmax"},
    "hessian-vector-product": {
        "They must not require grad afterwards": "turns the caller's tensors into leaves",
        "It returns a tuple": "returns a list",
        "must never be built, neither at once": "builds the matrix",
        "or row by row": "goes by rows",
        "`f` is evaluated only at `inputs`": "by differences",
    },
    "gradient-penalty": {
        "with respect to the critic's parameters gives the right": "forgets create_graph",
        "finite even where the critic is flat": "a steep root",
        "changes no `.grad`": "by backward",
        "`x` itself stays as it is": "asks x itself",
    },
    "elu-by-output": {"save nothing but the output": "saves the input"},
    "maximum-by-mask": {"at most one byte for each element": "saves both inputs"},
    "swiglu": {"save nothing but `a` and `b`": "saves the sigmoid too"},
    "fused-linear-relu": {
        "nothing but inputs and the output": "saves it and the output",
        "At exactly 0, the gradient is 0": "passes at 0",
    },
    "packed-leaky-relu": {
        "one bit per element": "a boolean mask",
        "Write the packing yourself": "a list of signs",
    },
    "invertible-coupling": {"only the two outputs and the two weights": "saves the inputs"},
    "checkpointed-block": {
        "none of its intermediate results": "keeps an activation",
        "The gradients of `x` and of every parameter": "parameters are no inputs",
        "`.backward()` and with `torch.autograd.grad`": "only writes into .grad",
        "the same mask in both runs": "draws a new mask",
        "the same as without the second run": "leaves the old random state",
        "Frozen parameters": "thinks of no frozen parts",
    },
    "chunked-row-losses": {
        "must never exist, neither in forward": "whole in forward",
        "or in backward": "whole in backward",
        "the chunks' gradients of the weight": "lists the gradients",
        "at most two numbers for each row": "keeps the softmax",
    },
    "attention-forward": {
        "nothing overflows": "no shift",
        "A query that sees no key gets zeros": "fully masked rows nan",
    },
    "merge-halves": {"nothing overflows": "exp of a large number"},
    "attention-budget": {"save only `q`, `k`, `v`, the mask, the output": "keeps P"},
    "attention-tiled": {
        "no operation of either pass returns a tensor of more": "strips of all keys",
        "`block` sets the size of the tiles": "tiles of one size, whatever is asked for",
        "take more than half of the memory": "all tiles at once in a list",
        "The saved tensors stay within the budget of tier 3": "keeps a copy of q",
    },
    "attention-twice": {
        "the first and second derivatives must be correct": "detaches",
        "The saved tensors stay within the budget of tier 3": "keeps P, and does not use it",
    },
    "attention-grouped": {"once, without repetition": "keeps the repeated keys"},
    "repair-dropout": {"its mask is `draw(x, p, generator)`": "seeds PyTorch's generator"},
    "split-rms-norm": {
        "and `setup_context`, and with `backward`": "ctx is still in forward",
        "No gradient flows through `rstd`": "rstd is not marked",
        "`torch.func.grad` and `vmap` accept the class": "no rule for vmap",
    },
    "per-sample-gradients": {
        "It returns a tuple": "a list",
        "the model is called once": "a loop",
    },
    "vmap-solve": {
        "may lie along any dim": "the batch is taken to be in front",
        "all samples may share one of the two": "None is forgotten",
        "the kernel is called once": "a loop over the samples",
    },
    "jvp-smooth-maximum": {
        "the Hessian, computed forward over reverse, is also right": "other tensors for each mode",
        "not as attributes of `ctx`": "kept on ctx",
        "the same tensors in the same order": "another order",
    },
    "repair-graph-breaks": {
        "no counter": "the counter stays",
        "turns the Function into one graph": "a branch on values",
    },
    "operator-window-sums": {
        "passes `opcheck`": "a fake like x",
        "can be differentiated twice": "a detached gradient",
        "compiles into one graph": "NumPy in backward",
    },
    "repair-autocast": {
        "must not convert anything": "float32 always",
        "bfloat16 if an earlier layer returns bfloat16": "bfloat16 inputs stay",
        "are the same as without it": "forward alone",
    },
    "lambert-w": {
        "`x` of any shape": "from_numpy of a number",
        "differentiable *twice*": "slope by NumPy",
        "even at $x = 0$": "0/0 at 0",
        "Float32 stays float32": "float64 whatever comes",
    },
    "kepler": {
        "differentiable *twice*": "slope by NumPy",
        "The gradient of `e` has the same shape as `e`": "gradient of e not summed",
    },
    "equilibrium-layer": {
        "none of the solver's rounds": "saves all rounds",
        "Do not run the rounds again in `backward`": "run again in backward",
    },
    "triangular-solve": {
        "The other half is never read": "the unread half too",
        "differentiable *twice*": "solved by SciPy",
        "Do not invert a matrix": "inverted",
    },
    "soft-threshold-operator": {
        "any memory layout": "memory read in order",
        "the result has the same dtype": "always float64",
        "For any other dtype": "integers as numbers",
        "does not change `x`": "writes into x",
    },
    "soft-threshold-function": {
        "it also gets a gradient": "threshold gets nothing",
        "supports double backward": "once differentiable",
        "Save nothing but the output": "saves the input",
    },
    "any-batch": {
        "not its `.module()`": "its module",
        "takes batches of any size": "for the example's size",
        "as the model does in eval mode": "in training mode",
        "the model keeps the mode": "leaves eval on",
        "so does each of its layers": "its own mode",
    },
    "lost-gradients": {
        "It finds gradients that are zero": "compares outputs",
        "gradients that are wrong": "zeros only",
        "for example a softmax": "a g of ones",
        "The last digits may differ": "to the last bit",
        "A parameter that neither model uses": "None",
        "does not fill or change any `.grad`": "by backward",
    },
    "reversal-that-travels": {
        "in eager mode *and* in the exported program": "a Function",
    },
    "round-away-in-onnx": {
        "no function of `torch` accepts it": "torch",
        "`onnx.checker` accepts the file": "no such operator",
        "including halves of both signs": "half up",
    },
    "eight-bits": {
        "a row of zeros": "no eps",
        "one scale $s_i$ for each row": "one scale",
        "right in eager mode *and* in the exported program": "a Function",
        "The weight does not change": "in place",
    },
    "the-sorter": {
        "at least 90% of 400 held-out digits": "untrained",
        "at most four different values": "no levels",
        "takes any batch size": "one batch",
        "gets a gradient that is not zero": "a Function",
        "not negligible next to the largest one": "a tiny slope",
    },
}
# Sentences after **Constraint** that require nothing. They give a reason, or say how it is graded.
REASONS = {
    "scaled-sigmoid": ("The next layer usually saves",),
    "snake": ("compose this function",),
    "swish": ("An input or the output counts",),
    "strided-gain": ("A slice is a view", "then does not need the values"),
    "sort-with-indices": ("where each number went",),
    "broadcast-multiply": ("you would not notice the difference", "The grader looks at"),
    "plain-conv1d": ("call the same built-ins",),
    "conv1d": ("call the same built-ins",),
    "complex-multiply": ("the autograd engine raises an error",),
    "gradient-reversal": ("Many published versions", "training stops with an error"),
    "clipped-sign": ("rule for kinks would give 0", "A surrogate is your choice"),
    "fake-quantize": ("Published recipes", "belongs in the training loop"),
    "binary-digits": (
        "checks three things", "that really run", "Normalization layers may have",
        "Guessing gives 10%", "may take 30 seconds", "A network the size of the one in the lesson",
        "puts it into `eval()` mode", "Before you grade",
    ),
    "exp-twice": ("the output is a *tensor*",),
    "sinh-by-output": ("in terms of $y$ alone", "sinh and cosh satisfy an identity"),
    "hessian-vector-product": ("Two backward passes are enough",),
    "fused-linear-relu": ("because no other operation needs them",),
    "invertible-coupling": ("Backward uses them to reconstruct",),
    "checkpointed-block": ("CPU only", "no autocast, no batch norm"),
    "attention-budget": ("The grader counts",),
    "split-rms-norm": ("PyTorch may generate its vmap rule",),
    "repair-autocast": ("The grader works on the CPU",),
    "soft-threshold-operator": ("every second column",),
    "soft-threshold-function": ("all that backward needs", "If you have not solved exercise 1"),
    "any-batch": ("A program has no mode",),
    "the-sorter": ("for the program that the grader", "data that the grader uses", "as long as"),
}  # fmt: skip
MISTAKES = {(wrong.exercise, wrong.mistake): wrong for wrong in WRONG}
ROWS = [
    (exercise, words, mistake)
    for exercise, constraints in STATED.items()
    for words, mistake in constraints.items()
]


@cache
def statements() -> dict[str, str]:
    """Return the text above each answer cell, from its heading on, with a line per paragraph."""
    found, text = {}, ""
    for lesson in sorted(SOLUTIONS.glob("*.py")):
        for cell in read(lesson).cells:
            if not cell.is_code:
                begins = re.match(r"#+ ", cell.source)
                text = cell.source if begins else f"{text}\n\n{cell.source}"
            elif (exercise := str((cell.nbgrader or {}).get("grade_id"))) in CATALOGUE:
                found[exercise] = re.sub(r"(?<=\S)\n(?=[^\n-])", " ", text)
    return found


def sentences(exercise: str) -> list[str]:
    """Return the text after **Constraint** in a statement, up to the next code or **Write**."""
    _, *constraint = re.split(r"\*\*Constraints?:?\*\*", statements()[exercise])
    text = re.split(r"\n {4}|\*\*Write\*\*", " ".join(constraint))[0]
    return [
        part for part in re.split(r"(?<=[.;!?)])\s+|\n+(?:- )?", text) if re.search(r"\w", part)
    ]


@pytest.mark.parametrize("exercise", CATALOGUE)
def test_every_sentence_on_a_constraint_is_known(exercise: str) -> None:
    known = (*STATED.get(exercise, ()), *REASONS.get(exercise, ()))

    unknown = [said for said in sentences(exercise) if not any(words in said for words in known)]

    assert not unknown, (
        f"{exercise} states {unknown}. Add words of it to STATED, with a wrong answer in "
        "tests/support/answers that breaks it, or to REASONS if it asks for nothing."
    )


@pytest.mark.parametrize(
    ("exercise", "words"),
    [*((e, words) for e, words, _ in ROWS), *((e, w) for e, ws in REASONS.items() for w in ws)],
)
def test_the_table_quotes_the_statement(exercise: str, words: str) -> None:
    assert words in statements()[exercise].replace("**", "")


@pytest.mark.parametrize(
    ("exercise", "words", "mistake"),
    first_rows(ROWS, lambda row: CATALOGUE[row[0]].lesson, 2, unpack=True),
)
def test_a_stated_constraint_is_graded(exercise: str, words: str, mistake: str) -> None:
    wrong = MISTAKES[exercise, mistake]

    result = grade(exercise, wrong.answer)

    rule = result.finding.rule if result.finding else ""
    hint = result.finding.hint if result.finding else ""
    assert result.status == "wrong", str(result)
    assert wrong.rule == rule or wrong.rule in f"{result.message} {hint}", str(result)

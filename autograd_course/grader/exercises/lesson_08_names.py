"""Six of lesson 08's patients, to be named from their charts before they are repaired."""

from typing import Any

from autograd_course.grader.exercise import NamingExercise


def name(**described: Any) -> NamingExercise:
    """Return a diagnosis of one point."""
    return NamingExercise(lesson="08_debugging_clinic", points=1, **described)


NAMES: tuple[NamingExercise, ...] = (
    name(
        id="name-temperature",
        title="Name: the temperature that stays",
        rule="captured-tensor",
        but={
            "missing-gradient": "That is what the owner sees. But backward returns all that it is "
            "asked for, one gradient for its one argument. Ask why the other is not asked for.",
            "backward-never-called": "It is called, and x gets its gradient.",
            "frozen-input": "temperature requires grad, nothing is frozen. And is it an input?",
            "tensor-on-ctx": "Nothing but x is kept, and by save_for_backward.",
            "shared-state": "A global, yes, but nothing writes to it between the passes. Who does "
            "not know of it?",
            "wrong-arity": "One argument, one gradient: the count is right. Is the argument list?",
        },
        hints=(
            "Count: which tensors does forward compute with, and which ones was it handed?",
            "The engine knows of the tensors that apply was given, and of no others. This one came "
            "in by another door.",
            "The rule is called after what the body of a function does to a variable around it: "
            "it captures it.",
        ),
        read='lesson 08, "What gradcheck does not ask"',
    ),
    name(
        id="name-floor-log",
        title="Name: the silence that was not silent",
        rule="mutates-input",
        but={
            "mutates-saved": "What is saved is not changed after it was saved. When is it changed, "
            "and whose is it?",
            "mutates-grad-output": "The mask is wrong before any backward has run.",
            "returns-view": "log makes a new tensor. The damage is done a line before.",
            "wrong-mark-dirty": "Nothing is declared here. Something should have been, or rather "
            "should not have been done.",
            "wrong-region": "There may be a second bug of that kind; for the counts that the owner "
            "printed it does not take a backward.",
            "shared-state": "There is no state. But two parts of the program share a tensor.",
        },
        hints=(
            "The count changed without a backward. Which line of forward can be seen from outside?",
            "x.data is x's memory without x's version counter. The underscore at the end of a "
            "method says what it does to it.",
            "The rule begins with mutates-; ask whose tensor it is.",
        ),
        read='lesson 08, "What gradcheck does not ask"',
    ),
    name(
        id="name-distance",
        title="Name: the word that mutes the sentence",
        rule="uniform-grad-output",
        but={
            "ignores-grad-output": "Close: it does use grad_output, and twice the loss gives twice "
            "the gradient. How much of grad_output does it use?",
            "nonlinear-in-grad-output": "Twice the grad_output gives twice the gradient, and sums "
            "give sums: it is linear. But a linear map of what?",
            "missing-gradient": "With a first weight of 1 all gradients come. With 0 none does, "
            "not even those of rows whose weight is 1.",
            "constant-factor": "The ratio is another for every row: it is first weight to own "
            "weight.",
            "batch-dimension": "Rows do reach into each other, but not through x. Through what?",
            "unreduced-broadcast": "The shapes are right, and nothing is summed that should not "
            "be. Rather the contrary: one number is spread over everything.",
        },
        hints=(
            "Set the weights to (0, 1, 1): no gradient. To (1, 1, 1): right. To (1, 0, 0)? Guess, "
            "then run.",
            "With a mean or a sum behind it, all entries of grad_output are equal, and then it "
            "does not matter which one is used.",
            "Right only for a grad_output that is the same everywhere: the rule has the word for "
            "that.",
        ),
        read='lesson 08, "Step 5: gradcheck"',
    ),
    name(
        id="name-rotation",
        title="Name: right until transposed",
        rule="grad-output-layout",
        but={
            "input-layout": "The transposed tensor comes after the Function, so x lies in memory "
            "as ever. What is transposed, seen from backward?",
            "transposed-gradient": "The gradient's axes are in order where nothing is transposed "
            "afterward; a formula does not know what follows it.",
            "permuted-gradient": "Right numbers of what, in wrong places? Close, but it happens "
            "only for some callers: say what they have in common.",
            "batch-dimension": "The batch may have any size. It depends on what is done with the "
            "output.",
            "dim-argument": "No axis is passed, and none is reduced.",
            "wrong-region": "The numbers in x do not matter, only how the gradient arrives.",
        },
        hints=(
            "The two runs send the same numbers into backward. What else has a tensor but numbers, "
            "shape and dtype?",
            "Strides. A gradient that comes back through a transpose is a transposed view.",
            "The rule is called after what arrives, and after how it lies in memory.",
        ),
        read='lesson 08, "What gradcheck does not ask"',
    ),
    name(
        id="name-solver",
        title="Name: only the first loss trains",
        rule="not-reentrant",
        but={
            "shared-state": "Each call has a ctx, and a tape, of its own. There was only one call.",
            "mutates-saved": "No saved tensor is written to. But something beside them is.",
            "mutates-grad-output": "grad_output = … gives a new tensor the old name; nothing is "
            "written into the one that arrived.",
            "missing-gradient": "A gradient comes, and the first time it is right.",
            "tensor-on-ctx": "On ctx lies a list of numbers; the tensors are saved as they should "
            "be.",
            "nondeterministic": "It gives the same wrong number whenever it is asked a second "
            "time.",
        },
        hints=(
            "First right, then wrong, and forward ran once. So backward has changed something. "
            "What is left of ctx.tape after it?",
            "An empty tape means: no step to walk back through, and grad_output leaves as it came.",
            "A function that can be entered again, while the rest of its first run is still "
            "around, has a name in computer science.",
        ),
        read='lesson 08, "What gradcheck does not ask"',
    ),
    name(
        id="name-dropout",
        title="Name: two masks",
        rule="rng-not-restored",
        but={
            "nondeterministic": "Under a seed two runs give the same. It is the two passes of one "
            "run that differ.",
            "constant-factor": "You have seen something, and it is real. But it hides behind "
            "another one: look where the zeros are.",
            "wrong-region": "Wrong at some elements, yes, and at other ones in the next run. What "
            "decides at which?",
            "not-reentrant": "True, and a consequence: every backward draws anew. Name the cause.",
            "recompute-side-effect": "Nothing in a module is changed a second time. But something "
            "is done a second time that should give the same as the first.",
            "shared-state": "The generator is shared by all of PyTorch, as it should be. Who moves "
            "it on between the passes?",
        },
        hints=(
            "Put ones in, send ones back, and compare the zeros.",
            "forward drew a mask and threw it away. What does the same line do in backward?",
            "Nobody set the random number generator back to where forward began.",
        ),
        read='lesson 08, "Freeze the noise"',
    ),
)

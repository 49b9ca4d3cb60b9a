"""A checkpoint of your own

1. The inputs of a Function are the arguments of .apply. So pass the block, x, and the parameters of
   the block. What must forward store before it runs the block, so that a second run can draw the
   same dropout mask?
2. Save x and the parameters, and store the block and torch.get_rng_state() on ctx. In backward,
   detach x and make it require grad. Rerun the block inside torch.random.fork_rng(), set_rng_state
   and torch.enable_grad(). Then compute all gradients with one call to torch.autograd.grad.
3. wanted = [t for t, need in zip((x, *parameters), ctx.needs_input_grad[1:]) if need]. Put the
   gradients of torch.autograd.grad(y, wanted, grad_output) in the places where need is true. Return
   None in the other places, and None for the block itself.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from autograd_doctor.memory import kept_bytes, kept_tensors
from torch import Tensor, nn

from autograd_course.errors import first_line
from autograd_course.grader.checks.calling import Followed
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.sampling import generator, normal
from autograd_course.grader.trials.measured import far_result
from autograd_course.grader.verdict import Verdict, wrong


def plain(block: nn.Module, x: Tensor) -> Tensor:
    """Return ``block(x)``."""
    result: Tensor = block(x)
    return result


Routine = Callable[[nn.Module, Tensor], Tensor]
SEED = 2  # the seed of each run
OF_TORCH = "CheckpointFunctionBackward"
OF_BLOCK = "TanhBackward0"  # the node of the tanh in each block that runs with a graph


def block_with(dropout: float, width: int = 6) -> nn.Module:
    """Return a small block with fixed weights."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = nn.Linear(width, 12), nn.Tanh(), nn.Dropout(dropout), nn.Linear(12, width)
        return nn.Sequential(*layers).double()


def batch(width: int = 6) -> Tensor:
    """Return a random batch of inputs for a block."""
    return normal(generator(), 4, width).requires_grad_()


def run(routine: Routine, block: nn.Module, x: Tensor) -> tuple[Tensor, list[Tensor | None]]:
    """Run with a fixed seed. Return the output and the gradients of x and the parameters."""
    torch.manual_seed(SEED)
    torch.rand(5)  # now the seed alone does not determine the random state
    wanted = [tensor for tensor in (x, *block.parameters()) if tensor.requires_grad]
    y = routine(block, x)
    # The code between a block and its backward also draws random numbers.
    torch.rand(3)
    return y, list(torch.autograd.grad(y.square().sum(), wanted, allow_unused=True))


def differs(gradient: Tensor | None, expected: Tensor | None) -> bool:
    """Return whether a gradient is missing or differs from the expected gradient."""
    if gradient is None or expected is None:
        return gradient is not expected
    return not torch.allclose(gradient, expected, rtol=1e-7, atol=1e-9)


def is_a_function(routine: Routine) -> Verdict | None:
    """Check that the output comes from the learner's Function and equals ``block(x)``."""
    block, x = block_with(0.0), batch()
    y = routine(block, x)
    if not isinstance(y, Tensor) or y.shape != x.shape:
        return wrong("it should return the result of block(x), a tensor of the same shape.")
    if not torch.allclose(y, block(x)):
        return wrong("its result differs from block(x).")
    if y.grad_fn is None:
        return wrong("its result has no graph. Call the Function by its .apply.")
    nodes = {node.name() for node in _nodes(y)}
    if OF_TORCH in nodes:
        return wrong("this is torch.utils.checkpoint. Write the checkpoint yourself.")
    is_own = isinstance(y.grad_fn, torch.autograd.function.BackwardCFunction)
    if is_own and OF_BLOCK not in nodes:
        return None
    if not kept_bytes(lambda x: routine(block, x), x):
        return wrong(
            "the block ran with a graph, and something like torch.utils.checkpoint dropped the "
            "saved tensors. In this exercise, write the checkpoint yourself as a Function."
        )
    last = f"the last node of its graph is {y.grad_fn.name()}, an operation of PyTorch. So "
    return wrong(
        f"{'' if is_own else last}the block ran with a graph, and the graph saves its intermediate "
        "results. Run the block inside the forward of a Function, where grad mode is off."
    )


def _nodes(y: Tensor) -> set[Any]:
    """Return all nodes in the graph of an output."""
    found: set[Any] = set()
    new: set[Any] = {y.grad_fn}
    while new:
        found |= new
        new = {node for each in new for node, _ in each.next_functions} - found - {None}
    return found


def are_inputs(tensors: Iterable[Tensor], y: Tensor) -> bool:
    """Return whether any of these leaves is an input of the last node in the graph."""
    behind = {id(getattr(node, "variable", None)) for node, _ in _next(y)}
    return any(id(tensor) in behind for tensor in tensors)


def _next(y: Tensor) -> tuple[tuple[Any, int], ...]:
    return () if y.grad_fn is None else y.grad_fn.next_functions


def keeps_the_input_only(routine: Routine) -> Verdict | None:
    """Check that the routine saves only the input and the parameters for backward."""
    block, x = block_with(0.5), batch()
    followed = Followed(lambda x: _seeded(routine, block, x), (x,))
    kept = sum(it.bytes for it in kept_tensors(followed, x) if not it.anyway)
    if kept and not (kept == _random_state().nbytes and _keeps_random_state(routine, block, x)):
        return wrong(
            f"{kept:,} bytes are saved for backward besides the input and the parameters. Backward "
            "recomputes the intermediate results, so do not save them."
        )
    followed.backward()
    came = followed.computed()
    y = _seeded(nn.Module.__call__, block, x)
    (right,) = torch.autograd.grad(y, x, came.sent)
    where = "in the call in which the grader counts the saved bytes,"
    return far_result(came.outputs[0], y, where) or far_result(came.gradients[0], right, where)


def _seeded(routine: Routine, block: nn.Module, x: Tensor) -> Tensor:
    torch.manual_seed(SEED)
    return routine(block, x)


def _random_state() -> Tensor:
    """Return the random state with which each seeded call begins."""
    torch.manual_seed(SEED)
    return torch.get_rng_state()


def _keeps_random_state(routine: Routine, block: nn.Module, x: Tensor) -> bool:
    """Return whether the last node of the graph keeps the random state, or a copy of it."""
    node: Any = _seeded(routine, block, x).grad_fn
    state = _random_state()
    held = [*vars(node).values(), *node.saved_tensors]
    return any(isinstance(it, Tensor) and torch.equal(it, state) for it in held)


def saves_its_tensors(routine: Routine) -> Verdict | None:
    """Check that forward saves the input and the parameters with save_for_backward, not on ctx."""
    block, x = block_with(0.0), batch()
    known = {id(tensor) for tensor in (x, *block.parameters())}
    y = routine(block, x)
    node: Any = y.grad_fn
    for name, value in vars(node).items():
        held = value if isinstance(value, (list, tuple)) else [value]
        if known & {id(tensor) for tensor in held}:
            return wrong(
                f"the gradients are right, but ctx.{name} holds the input or the parameters. "
                "PyTorch does not notice if they are changed in place, and does not free them "
                "after backward. Pass them to ctx.save_for_backward."
            )
    (came,), (right,) = (torch.autograd.grad(out.square().sum(), x) for out in (y, block(x)))
    return far_result(came, right, "in one more call,")


def ignoring_the_caller(block: nn.Module, x: Tensor) -> list[Tensor | None]:
    """Return the gradients of the sum of ``block(x)``."""
    return list(torch.autograd.grad(block(x).sum(), (x, *block.parameters())))


def gradients_arrive(routine: Routine) -> Verdict | None:
    """Check that backward returns the correct gradients of x and of the parameters."""
    block, x = block_with(0.0), batch()
    try:
        y, (of_x, *of_parameters) = run(routine, block, x)
    except RuntimeError as error:
        if "does not require grad" not in str(error):
            raise
        return wrong(
            "backward differentiates its second run, but that run records no graph. In backward, "
            "grad mode is off, as in forward. Does your code turn it on, and does x require a "
            "gradient?"
        )
    _, (right_x, *right) = run(nn.Module.__call__, block, x)
    if all(gradient is None for gradient in of_parameters):
        if are_inputs(block.parameters(), y):
            return wrong(
                "the parameters are inputs of your Function, but backward returns None for each. "
                "An inner .backward() only writes into .grad, and torch.autograd.grad does not "
                "read .grad. Return the gradients."
            )
        return wrong(
            "no gradient arrives at the parameters of the block when torch.autograd.grad asks for "
            "them, because they are not inputs of your Function. Pass them to .apply, and return a "
            "gradient for each."
        )
    if not any(map(differs, (of_x, *of_parameters), ignoring_the_caller(block, x))):
        return wrong(
            "your gradients are those of the sum of the output. backward must pass grad_output on: "
            "give it to torch.autograd.grad as grad_outputs."
        )
    if any(map(differs, of_parameters, right)):
        return wrong("the gradients of the parameters differ from those of block(x).")
    if differs(of_x, right_x):
        return wrong("the gradient of x differs from that of block(x).")
    if any(tensor.grad is not None for tensor in (x, *block.parameters())):
        return wrong(
            "backward writes into .grad, although the caller used torch.autograd.grad. In "
            "backward, use torch.autograd.grad as well, with an x that you have detached."
        )
    return None


def before(draws: int, *, after_block: bool) -> Callable[[nn.Module], None]:
    """Return a function that sets the random state of :func:`run` after a given number of draws."""

    def set_state(_: nn.Module) -> None:
        torch.manual_seed(SEED)
        torch.rand(5)
        if after_block:
            block_with(0.5)(torch.zeros(4, 6, dtype=torch.float64))  # draws as many numbers
        torch.rand(draws)

    return set_state


def state_of_forward(block: nn.Module) -> Tensor:
    """Return the random state in which forward begins in :func:`run`."""
    with torch.random.fork_rng():
        before(0, after_block=False)(block)
        return torch.get_rng_state()


def replayed(y: Tensor, x: Tensor, prepare: Callable[[nn.Module], Any]) -> list[Tensor | None]:
    """Call ``prepare``, run a block with dropout again, and return the gradients of this run."""
    block = block_with(0.5)
    with torch.random.fork_rng():
        prepare(block)
        again = block(x)
    return list(torch.autograd.grad(again, (x, *block.parameters()), 2 * y.detach()))


SECOND_RUNS: Mapping[str, Callable[[nn.Module], Any]] = {
    "the second run draws no mask, because the block is in eval mode there. Run it in the mode "
    "that it had in forward.": nn.Module.eval,
    "the second run draws a different mask. It begins with the random state that forward left "
    "behind. Read the state before you run the block.": before(0, after_block=True),
    "the second run draws a different mask, because backward does not go back to the state of the "
    "random number generator that forward had. Save this state, and set it again.": (
        before(3, after_block=True)
    ),
    "the second run draws a different mask. It begins at the seed, but other code has drawn "
    "numbers since then. A seed is only the first state. Save the state itself.": (
        lambda _: torch.manual_seed(SEED)
    ),
}


def draws_the_same_mask(routine: Routine) -> Verdict | None:
    """Check that both passes draw the same dropout mask and preserve the random state."""
    block, x = block_with(0.5), batch()
    y, gradients = run(routine, block, x)
    after = torch.get_rng_state()
    # a block that the routine has not changed
    right_y, right = run(nn.Module.__call__, block_with(0.5), x)
    if differs(y, right_y):
        return wrong(
            "with dropout in the block and the same seed, its output differs from block(x). So "
            "forward changes the random state, or the block's mode, before it runs the block. In "
            "forward, only read the state. Set it in backward."
        )
    if any(map(differs, gradients, right)):
        for told, prepare in SECOND_RUNS.items():
            if not any(map(differs, gradients, replayed(right_y, x, prepare))):
                return wrong(f"with dropout in the block, {told}")
        return wrong(
            "with dropout in the block, the gradients do not belong to the output that forward "
            "returned, because the second run draws a different mask or none. What was the state "
            "of the random number generator before the first run? (A seed is only the first "
            "state.) And is the block still in the same mode?"
        )
    if torch.equal(after, state_of_forward(block)):
        return wrong(
            "the gradients are right, but after your backward, the random state is the one that "
            "forward began with. To put a state back, backward must read it before it sets the old "
            "one. torch.random.fork_rng() does both."
        )
    if not torch.equal(after, torch.get_rng_state()):
        return wrong(
            "the gradients are right, but your backward changes the random state, so the next "
            "random numbers differ from those without a checkpoint. Set the old state for the "
            "second run only, inside torch.random.fork_rng()."
        )
    return None


def works_in_part(routine: Routine) -> Verdict | None:
    """Check that backward works if a parameter is frozen or if x requires no gradient."""
    for frozen, told in (("0.weight", "a parameter is frozen"), ("", "x requires no gradient")):
        block, x = block_with(0.0), batch()
        if frozen:
            block.get_parameter(frozen).requires_grad_(False)
        else:
            x.requires_grad_(False)
        try:
            _, gradients = run(routine, block, x)
        except Exception as error:
            return wrong(
                f"if {told}, backward raises: {first_line(error)}. Compute only the gradients for "
                "which ctx.needs_input_grad is true, and return None in the other places."
            )
        if any(map(differs, gradients, run(nn.Module.__call__, block, x)[1])):
            return wrong(f"if {told}, the other gradients differ from those of block(x).")
    return None


EXERCISE = RoutineExercise(
    answer="checkpointed",
    points=4,
    difficulty="hard",
    minutes=25,
    section="Recompute a whole block",
    constraints="no intermediate result is saved, dropout draws the same mask twice, and frozen "
    "parameters work",
    reference=plain,
    trials=(
        is_a_function,
        gradients_arrive,
        draws_the_same_mask,
        keeps_the_input_only,
        saves_its_tensors,
        works_in_part,
    ),
)

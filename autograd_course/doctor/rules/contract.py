"""Rules of the contract between a Function and the engine."""

from __future__ import annotations

import re

import torch

from autograd_course.doctor.calls import is_float
from autograd_course.doctor.differences import as_real
from autograd_course.doctor.evidence import Evidence, Failure, Variant
from autograd_course.doctor.mismatch import mismatches, return_line, witness
from autograd_course.doctor.rules.registry import Seen, rule


def _failure(evidence: Evidence) -> Failure | None:
    """Return how backward failed, in the direct call or else through the engine."""
    if evidence.raw and evidence.raw.failure:
        return evidence.raw.failure
    random = evidence.pulls.get("random")
    return random.failure if random else None


def _shape(sizes: torch.Size) -> str:
    return str(tuple(sizes))


def _plural(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


@rule(
    "missing-staticmethod", "contract", "error", "forward or backward is an instance method",
    hint="PyTorch calls forward and backward on the class, with ctx first: decorate both with "
    "@staticmethod and drop self.",
    lesson="01_template",
)  # fmt: skip
def missing_staticmethod(evidence: Evidence) -> Seen | None:
    names = evidence.instance_methods
    if not names:
        return None
    methods = " and ".join(names)
    verb = "is an instance method" if len(names) == 1 else "are instance methods"
    return Seen(f"{methods} {verb}; a Function's methods are static.", {"methods": list(names)})


@rule(
    "non-tensor-saved", "contract", "error", "a non-tensor was given to save_for_backward",
    hint="save_for_backward takes tensors (or None) only; keep numbers, shapes and flags as "
    "attributes: ctx.name = value.",
    lesson="02_ctx_rules",
)  # fmt: skip
def non_tensor_saved(evidence: Evidence) -> Seen | None:
    failure = evidence.forward.failure
    found = failure and re.search(
        r"save_for_backward can only save variables, but argument (\d+) is of type (\S+)",
        failure.text,
    )
    if not found:
        return None
    place, kind = int(found[1]), found[2]
    return Seen(
        f"save_for_backward was given {'an' if kind[0] in 'aeiou' else 'a'} {kind} as argument "
        f"{place} (counted from 0); it can save only tensors.",
        {"argument": place, "type": kind},
    )


@rule(
    "saved-tensors-in-forward", "contract", "error", "forward reads ctx.saved_tensors",
    hint="In forward, use the tensor itself; ctx.saved_tensors is filled only after forward has "
    "returned, and is an empty tuple until then.",
    lesson="02_ctx_rules",
)  # fmt: skip
def saved_tensors_in_forward(evidence: Evidence) -> Seen | None:
    if not evidence.forward.read_saved:
        return None
    return Seen("forward reads ctx.saved_tensors, which is an empty tuple until forward returns.")


@rule(
    "wrong-mark-dirty", "contract", "error", "mark_dirty does not match what forward did",
    hint="mark_dirty names exactly the inputs that forward changes in place, and forward returns "
    "those same tensors.",
    lesson="02_ctx_rules",
)  # fmt: skip
def wrong_mark_dirty(evidence: Evidence) -> Seen | None:
    forward = evidence.forward
    if forward.failure and "marked as dirty" in forward.failure.text:
        return Seen("an input was marked dirty, but forward does not return it.")
    unreturned = set(forward.dirty) - set(forward.dirty_returned)
    if unreturned:
        return Seen(
            f"{evidence.name(min(unreturned))} was marked dirty, but forward does not return it."
        )
    unchanged = set(forward.dirty) - set(forward.changed)
    if unchanged:
        return Seen(
            f"{evidence.name(min(unchanged))} was marked dirty, but forward did not change it."
        )
    return None


@rule(
    "mutates-input", "contract", "error", "forward changes an input in place without mark_dirty",
    hint="Compute into a new tensor, or declare the change: ctx.mark_dirty(x), and return x itself.",
    lesson="02_ctx_rules",
)  # fmt: skip
def mutates_input(evidence: Evidence) -> Seen | None:
    hidden = [i for i in evidence.forward.changed if i not in evidence.forward.dirty]
    # For a callable the doctor cannot see mark_dirty; an input that comes back changed is declared.
    if not evidence.is_function:
        returned = {j for _, j in evidence.forward.views}
        hidden = [i for i in hidden if i not in returned]
    if not hidden:
        return None
    name = evidence.name(hidden[0])
    return Seen(f"forward changed its input {name} in place and did not say so.", {"input": name})


@rule(
    "forward-raises", "contract", "error", "forward raised an exception",
    hint="Run the forward alone on these inputs and repair it before looking at any gradient.",
    lesson="08_debugging_clinic", after=("contract",),
)  # fmt: skip
def forward_raises(evidence: Evidence) -> Seen | None:
    failure = evidence.forward.failure
    if failure is None:
        return None
    return Seen(
        f"forward raised {failure.kind}: {failure.text or 'without a message'}", _raised(failure)
    )


def _raised(failure: Failure) -> dict[str, str]:
    return {"exception": failure.kind, "text": failure.text, "line": failure.line}


@rule(
    "backward-never-called", "contract", "error", "the outputs do not lead to this Function's backward",
    hint="Call F.apply(...), return the tensor that apply returned, and do not detach it; an "
    "nn.Module has no backward of its own.",
    lesson="01_template", after=("contract",),
)  # fmt: skip
def backward_never_called(evidence: Evidence) -> Seen | None:
    forward = evidence.forward
    if forward.failure:
        return None
    if not forward.outputs:
        what = ", ".join(forward.kinds)
        return Seen(f"forward returned {what} where a tensor is needed.", {"returned": what})
    if set(forward.marked_non_differentiable) == set(range(len(forward.outputs))):
        return None
    if not any(is_float(output) for output in forward.outputs):
        return None
    if not any(forward.requires_grad):
        return Seen("no output requires grad: the result is cut off from the graph.")
    if not forward.custom_node:
        return Seen(
            "the outputs were built by plain autograd; no custom Function stands in their graph, "
            "so no backward of yours runs."
        )
    return None


@rule(
    "wrong-arity", "contract", "error", "backward returns the wrong number of gradients",
    hint="backward returns one value for each argument of forward after ctx, in the same order: a "
    "gradient for a tensor, None for everything else.",
    lesson="01_template",
)  # fmt: skip
def wrong_arity(evidence: Evidence) -> Seen | None:
    raw, arguments = evidence.raw, len(evidence.inputs)
    if raw and not raw.failure:
        extra = [kind for kind in raw.kinds[arguments:] if kind != "NoneType"]
        if raw.count >= arguments and not extra:
            return None
        names = ", ".join(evidence.parameters)
        return Seen(
            f"backward returned {_plural(raw.count, 'gradient')}; forward takes "
            f"{_plural(arguments, 'argument')} ({names}).",
            {"returned": raw.count, "expected": arguments,
             "line": return_line(evidence.backward_source)},
        )  # fmt: skip
    failure = _failure(evidence)
    found = failure and re.search(
        r"number of gradients \(expected (\d+), got (\d+)\)", failure.text
    )
    if not found:
        return None
    return Seen(
        f"a backward returned {_plural(int(found[2]), 'gradient')} where {found[1]} were needed.",
        {"returned": int(found[2]), "expected": int(found[1])},
    )


@rule(
    "gradient-shape", "contract", "error", "a gradient's shape does not fit its input",
    hint="Each gradient has exactly the shape of its input: follow the shapes of the formula, and "
    "sum over what forward broadcast or expanded.",
    lesson="03_gradient_patterns", after=("wrong-arity",),
)  # fmt: skip
def gradient_shape(evidence: Evidence) -> Seen | None:
    for name, shape, got in _raw_shapes(evidence):
        if got != shape and not _sums_to(got, shape) and not _is_transpose(evidence, name):
            return Seen(
                f"backward returned a gradient of shape {_shape(got)} for {name}, "
                f"which has shape {_shape(shape)}.",
                {"input": name, "expected": list(shape), "actual": list(got),
                 "line": return_line(evidence.backward_source)},
            )  # fmt: skip
    failure = _failure(evidence)
    found = failure and re.search(
        r"got (\[.*?\]) but expected shape compatible with (\[.*?\])", failure.text
    )
    if found and not (evidence.raw and evidence.raw.grads):
        return Seen(
            f"a backward returned a gradient of shape {found[1]} for an input of shape {found[2]}."
        )
    return None


def _raw_shapes(evidence: Evidence) -> list[tuple[str, torch.Size, torch.Size]]:
    if evidence.raw is None:
        return []
    return [
        (evidence.name(i), evidence.inputs[i].shape, grad.shape)
        for i, grad in enumerate(evidence.raw.grads[: len(evidence.inputs)])
        if grad is not None and i in evidence.wanted
    ]


def _sums_to(got: torch.Size, shape: torch.Size) -> bool:
    """Whether the engine would sum a gradient down to the input's shape without a word."""
    if len(got) < len(shape):
        return False
    trailing = got[len(got) - len(shape) :]
    return all(want in (have, 1) for have, want in zip(trailing, shape, strict=True))


def _is_transpose(evidence: Evidence, name: str) -> bool:
    from autograd_course.doctor.rules.hypotheses import raw_transpose

    return raw_transpose(evidence, evidence.parameters.index(name))


@rule(
    "unreduced-broadcast", "contract", "error", "a gradient is larger than its input",
    hint="Sum the gradient over the axes that forward broadcast, keeping axes of length 1 "
    "(grad.sum_to_size(x.shape)).",
    lesson="03_gradient_patterns",
)  # fmt: skip
def unreduced_broadcast(evidence: Evidence) -> Seen | None:
    for name, shape, got in _raw_shapes(evidence):
        if got != shape and _sums_to(got, shape):
            right = not any(m.name == name for m in mismatches(evidence))
            mended = (
                "the engine sums it silently, and the sum is right; a direct call, a hook or a "
                "transform sees the wrong shape" if right else
                "the engine sums it silently, and the sum is wrong"
            )  # fmt: skip
            return Seen(
                f"backward returned a gradient of shape {_shape(got)} for {name}, which has shape "
                f"{_shape(shape)}: {mended}.",
                {"input": name, "expected": list(shape), "actual": list(got)},
                "warning" if right else "error",
            )
    return None


@rule(
    "gradient-dtype", "contract", "warning", "a gradient's dtype is not its input's",
    hint="Make new tensors like the ones you have (torch.zeros_like, x.new_zeros, grad_output.dtype), "
    "and convert masks with .to(grad_output.dtype), not with .float().",
    lesson="03_gradient_patterns",
)  # fmt: skip
def gradient_dtype(evidence: Evidence) -> Seen | None:
    dtypes = [v for v in evidence.variants if v.name != "meta"]
    crashed = [v for v in dtypes if v.failure]
    if crashed and len(crashed) < len(dtypes):
        failure = crashed[0].failure
        assert failure is not None
        runs = " and ".join(v.name for v in dtypes if not v.failure)
        return Seen(
            f"backward runs in {runs} but raises {failure.kind} in {crashed[0].name}: {failure.text}",
            _raised(failure),
            "error",
        )
    for variant in dtypes:
        for position, want, got in _unlike(evidence, variant):
            name = evidence.name(position)
            return Seen(
                f"for {want} inputs, backward returned a {got} gradient for {name}; "
                "the engine converts it silently.",
                {"input": name, "expected": want, "actual": got},
            )
    return None


def _unlike(evidence: Evidence, variant: Variant) -> list[tuple[int, str, str]]:
    grads = evidence.raw.grads if evidence.raw else ()
    kept = [i for i in evidence.wanted if i < len(grads) and grads[i] is not None]
    rows = zip(kept, variant.wanted, variant.got, strict=False)
    return [(i, want, got) for i, want, got in rows if got is not None and got != want]


@rule(
    "gradient-device", "contract", "error", "backward makes tensors on a fixed device",
    hint="Make new tensors where the old ones are: torch.zeros_like(x), x.new_zeros(shape), "
    "device=grad_output.device.",
    lesson="03_gradient_patterns", after=("gradient-shape", "wrong-arity", "gradient-dtype"),
)  # fmt: skip
def gradient_device(evidence: Evidence) -> Seen | None:
    for variant in evidence.variants:
        if variant.name != "meta":
            continue
        if variant.failure and "device" in variant.failure.text.lower():
            return Seen(
                "backward mixes devices when its inputs are not on the CPU: "
                + variant.failure.text,
                _raised(variant.failure),
            )
        for position, _, got in _unlike(evidence, variant):
            name = evidence.name(position)
            return Seen(
                f"backward puts the gradient of {name} on the {got}, wherever {name} is.",
                {"input": name, "actual": got},
            )
    return None


@rule(
    "backward-raises", "contract", "error", "backward raised an exception",
    hint="Read the line that raised; print the shapes of grad_output and of the saved tensors there.",
    lesson="08_debugging_clinic", after=("contract",),
)  # fmt: skip
def backward_raises(evidence: Evidence) -> Seen | None:
    failure = _failure(evidence)
    if failure is None or any(raw_transpose_of(evidence)):
        return None
    return Seen(
        f"backward raised {failure.kind}: {failure.text or 'without a message'}", _raised(failure)
    )


def raw_transpose_of(evidence: Evidence) -> list[bool]:
    """For each wanted input, whether the raw gradient is the truth with its last axes exchanged."""
    return [_is_transpose(evidence, evidence.name(i)) for i in evidence.wanted]


@rule(
    "returns-view", "contract", "warning", "an output is an input, or a view of one",
    hint="Return a new tensor (x.clone()); a view out of a Function cannot be changed in place, and "
    "its gradient may bypass your backward.",
    lesson="02_ctx_rules",
)  # fmt: skip
def returns_view(evidence: Evidence) -> Seen | None:
    if not evidence.forward.views:
        return None
    output, source = evidence.forward.views[0]
    which = "its output" if len(evidence.forward.outputs) == 1 else f"output {output}"
    return Seen(f"{which} shares memory with the input {evidence.name(source)}.")


@rule(
    "mutates-grad-output", "contract", "error", "backward changes grad_output in place",
    hint="Work on a new tensor (grad_output * mask, grad_output.clone()): other branches of the graph "
    "may hold the same memory.",
    lesson="02_ctx_rules",
)  # fmt: skip
def mutates_grad_output(evidence: Evidence) -> Seen | None:
    if not evidence.raw or not evidence.raw.changed_grad_outputs:
        return None
    return Seen(
        "backward changes grad_output in place; a sibling branch that shares it gets a wrong gradient.",
        {"outputs": list(evidence.raw.changed_grad_outputs)},
    )


@rule(
    "mutates-saved", "contract", "error", "backward changes a saved tensor in place",
    hint="Clone before changing: a saved tensor is the caller's input or output itself, and a second "
    "backward reads it again.",
    lesson="02_ctx_rules",
)  # fmt: skip
def mutates_saved(evidence: Evidence) -> Seen | None:
    if not evidence.raw or not evidence.raw.changed_saved:
        return None
    return Seen(
        f"backward changes saved tensor {evidence.raw.changed_saved[0]} (counted from 0) in place.",
        {"saved": list(evidence.raw.changed_saved)},
    )


@rule(
    "none-grad-output", "contract", "error", "backward fails when an output goes unused",
    hint="An unused output's gradient arrives as zeros, or as None after "
    "set_materialize_grads(False): handle that case.",
    lesson="02_ctx_rules", after=("contract",),
)  # fmt: skip
def none_grad_output(evidence: Evidence) -> Seen | None:
    for name, pull in evidence.pulls.items():
        if not name.startswith("only"):
            continue
        used = int(name.removeprefix("only "))
        if pull.failure:
            return Seen(
                f"backward raises {pull.failure.kind} when only output {used} is used: "
                f"{pull.failure.text}",
                {"used": used, **_raised(pull.failure)},
            )
        wrong = mismatches(evidence, name)
        if wrong and not mismatches(evidence):
            return Seen(
                f"the gradient is right when every output is used, and wrong when only output {used} is.",
                {"used": used, **witness(wrong[0])},
            )
    return None


@rule(
    "wrong-non-differentiable", "contract", "warning",
    "mark_non_differentiable does not match the outputs",
    hint="Mark outputs that carry no gradient (masks, indices kept as floats) with "
    "ctx.mark_non_differentiable, and no others.",
    lesson="02_ctx_rules",
)  # fmt: skip
def wrong_non_differentiable(evidence: Evidence) -> Seen | None:
    if not evidence.jacobian or not evidence.is_function:
        return None
    floats = [i for i, out in enumerate(evidence.forward.outputs) if is_float(out)]
    sizes = [as_real(evidence.forward.outputs[i]).numel() for i in floats]
    varies = [
        any(bool(rows.any()) for rows in per_input)
        for per_input in zip(
            *(columns.matrix.split(sizes) for columns in evidence.jacobian), strict=True
        )
    ]
    for place, depends in zip(floats, varies, strict=True):
        marked = place in evidence.forward.marked_non_differentiable
        if marked and depends:
            return Seen(
                f"output {place} is marked non-differentiable but changes smoothly with the inputs: "
                "its gradient is lost.",
                {"output": place},
                "error",
            )
        values = evidence.forward.outputs[place]
        if not marked and not depends and any(varies) and bool((values == values.round()).all()):
            return Seen(
                f"output {place} is piecewise constant (a mask or an index) yet requires grad.",
                {"output": place},
            )
    return None

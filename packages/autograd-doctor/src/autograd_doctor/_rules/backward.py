"""Rules about the errors and side effects of ``backward``, and about the gradients it returns."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from autograd_doctor._numerics.mismatch import mismatches, return_line, witness
from autograd_doctor._rules.rule import (
    Match,
    backward_failure,
    call,
    disagreement,
    ordinal,
    raised,
    raw_transpose,
    rule,
    shape,
    what_was_raised,
)
from autograd_doctor.evidence import DirectBackward, Evidence, Failure, Variant
from autograd_doctor.finding import Severity
from autograd_doctor.formatting import plural, quoted

# --------------------------------------------------------------------------------------------------
# Rules about errors and side effects of backward.
# --------------------------------------------------------------------------------------------------

# relative to the gradient; larger than a solver's error, smaller than that of an ignored output
BARELY = 0.01


@rule(
    "backward-raises",
    "contract",
    "error",
    "backward raises an exception",
    hint="Read the line that raises the exception, and print the shapes of `grad_output` and of "
    "the saved tensors there.",
    lesson="04_debugging_clinic",
    after=(
        "missing-staticmethod",
        "non-tensor-saved",
        "saved-tensors-in-forward",
        "wrong-mark-dirty",
        "forward-raises",
        "backward-never-called",
        "wrong-non-differentiable",
        "wrong-arity",
        "gradient-shape",
        "unreduced-broadcast",
        "gradient-dtype",
        "gradient-device",
    ),
)
def backward_raises(evidence: Evidence) -> Match | None:
    failure, own = backward_failure(evidence), evidence.contract.own
    turned = any(raw_transpose(evidence, position) for position in evidence.wanted)
    if failure is None and own and own.stage == "backward":
        where = f"in {own.dtype}, the dtype of your inputs, "
        return Match(
            f"{where}`backward` {what_was_raised(own.failure)}",
            {**raised(own.failure), "call": call(evidence, own.dtype)},
            hint=_what_to_do(own.failure, evidence.contract.backward_source),
        )
    if failure is None or turned:
        return None
    if evidence.forward.changed and "modified by an inplace operation" in failure.text:
        return None
    # If backward fails for the first cotangent, the doctor does not try the other cotangents.
    some = "for some values of `grad_output`, " if len(evidence.values.vjps) > 1 else ""
    return Match(
        f"{some}`backward` {what_was_raised(failure)}",
        {**raised(failure), "call": call(evidence)},
        hint=_what_to_do(failure, evidence.contract.backward_source),
    )


def _what_to_do(failure: Failure, source: str) -> str:
    if "tuple index out of range" in failure.text and "needs_input_grad" in source:
        return _NEEDS
    if "to unpack (expected" in failure.text and "needs_input_grad" in failure.line:
        return _NEEDS_UNPACKED
    return next((hint for said, hint in WHAT_TO_DO.items() if said in failure.text), "")


_NEEDS = (
    "Check that the call passed the optional argument before you read its entry: "
    "`ctx.needs_input_grad` has entries only for arguments that were passed."
)
_NEEDS_UNPACKED = (
    "Unpack only the entries that you need, as in `needs_x, *_ = ctx.needs_input_grad`. This tuple "
    "has one entry for each argument of the call, and none for an optional argument that the call "
    "left out."
)
_TUPLE = "Unpack `ctx.saved_tensors`, a tuple even for a single tensor: `(x,) = ctx.saved_tensors`."
_TO_NUMBERS = "Convert the mask to numbers first: `mask.to(grad_output.dtype)`."

# Fragments of Python and PyTorch error messages, each with a hint on how to fix the mistake.
WHAT_TO_DO = {
    "unpack (expected 1, got 0)": "Call `ctx.save_for_backward` in `forward`: `ctx.saved_tensors` "
    "is empty.",
    "to unpack (expected": "Unpack exactly the tensors that `forward` saved, in the same order.",
    "only integer tensors of a single element": _TUPLE,
    "can't multiply sequence": _TUPLE,
    "'tuple' and": _TUPLE,
    "must be Tensor, not tuple": _TUPLE,
    "value of Tensor with more than one value": "Use `torch.where` or multiply by the mask: "
    "a Python if needs a single truth value, and this tensor has many elements.",
    "positional argument": "Give `backward` the parameter `ctx` and one more for each "
    "output of `forward`.",
    "or None (got list)": "Return the gradients as a tuple: `return grad_x, grad_y`.",
    "expected Variable or None": "Return a tensor or None for each argument.",
    "does not require grad and does not have a grad_fn": "Write the derivative as a formula, or "
    "compute it under `torch.enable_grad()` from `x.detach().requires_grad_()`. Grad mode is off "
    "in `backward`, so PyTorch records no graph there.",
    "with a bool tensor is not supported": _TO_NUMBERS,
    "must be either a floating point or complex dtype": _TO_NUMBERS,
    "to have the same dtype": "Print the dtypes in this line, and convert one tensor to the dtype "
    "of the other: `w.to(grad_output.dtype)`.",
    "modified by an inplace operation": "Do not change a tensor in place after `save_for_backward` "
    "or an operation in `backward` has saved it: write `y = y + 1` in place of `y += 1`.",
    "'_fwd_used_autocast'": "Decorate `forward` with `custom_fwd`: `custom_bwd` needs it.",
}


@rule(
    "mutates-grad-output",
    "contract",
    "error",
    "backward changes grad_output in place",
    hint="Compute a new tensor (`grad_output * mask`) or change a copy (`grad_output.clone()`): "
    "other branches of the graph may use the same memory.",
    lesson="02_ctx_rules",
)
def mutates_grad_output(evidence: Evidence) -> Match | None:
    if not evidence.contract.direct or not evidence.contract.direct.changed_grad_outputs:
        return None
    return Match(
        "`backward` changes `grad_output` in place, so another branch of the graph that shares it "
        "gets a wrong gradient.",
        {
            "outputs": list(evidence.contract.direct.changed_grad_outputs),
            "line": evidence.contract.direct.changing_line,
        },
    )


@rule(
    "mutates-saved",
    "contract",
    "error",
    "backward changes a saved tensor in place",
    hint="Clone a saved tensor before you change it: it can be the caller's own input or output, "
    "and a second backward pass reads it again.",
    lesson="02_ctx_rules",
)
def mutates_saved(evidence: Evidence) -> Match | None:
    if not evidence.contract.direct or not evidence.contract.direct.changed_saved:
        return None
    direct = evidence.contract.direct
    what = f"`backward` changes saved tensor {direct.changed_saved[0]} (counting from 0) in place"
    seen = {"saved": list(direct.changed_saved), "line": direct.changing_line}
    if direct.again:
        return Match(f"{what}. A second backward pass {direct.again}.", seen, "warning")
    return Match(f"{what}.", seen)


@rule(
    "none-grad-output",
    "contract",
    "error",
    "backward fails when an output is unused",
    hint="Handle unused outputs: `backward` gets zeros as their `grad_output`, or None if "
    "`forward` calls `ctx.set_materialize_grads(False)`.",
    lesson="02_ctx_rules",
    after=("contract",),
)
def none_grad_output(evidence: Evidence) -> Match | None:
    for name, vjp in evidence.values.vjps.items():
        if name.kind != "single":
            continue
        used = ordinal(name)
        if vjp.failure and vjp.failure.runs_in_own_dtype:
            continue
        if vjp.failure:
            return Match(
                f"when only the {used} output is used, `backward` {what_was_raised(vjp.failure)}",
                {"used": used, **raised(vjp.failure)},
            )
        wrong = [m for m in mismatches(evidence, name) if m.relative > BARELY]
        if wrong and not mismatches(evidence):
            return Match(
                "the gradient is right when every output is used, but wrong when only the "
                f"{used} output is used.",
                {"used": used, **witness(wrong[0])},
            )
    return None


# --------------------------------------------------------------------------------------------------
# Rules about the number and the shapes of the gradients that backward returns.
# --------------------------------------------------------------------------------------------------


@rule(
    "wrong-arity",
    "contract",
    "error",
    "backward returns the wrong number of gradients",
    hint="Return one value for each argument of `forward` after `ctx`, in the same order: "
    "a gradient for a tensor, None for everything else.",
    lesson="01_template",
)
def wrong_arity(evidence: Evidence) -> Match | None:
    raw, parameters = evidence.contract.direct, [*evidence.parameters]
    failure = evidence.contract.rejected or backward_failure(evidence)
    found = failure and re.search(
        r"number of gradients \(expected (\d+), got (\d+)\)", failure.text
    )
    # If the Function defines setup_context, PyTorch also counts arguments left at their defaults.
    if found and int(found[1]) == len(parameters) + len(evidence.omitted):
        parameters += evidence.omitted
    arguments = len(parameters)
    if raw and not raw.failure:
        if wasted_gradients := _wasted(evidence, raw):
            return Match(wasted_gradients, {"line": return_line(evidence.contract.backward_source)})
        extra = [kind for kind in raw.kinds[arguments:] if kind != "NoneType"]
        if raw.count >= arguments and not extra:
            return None
        if raw.kinds == ("list",):
            return Match(
                "`backward` returns a list, which autograd treats as a single gradient.",
                {"returned": 1, "expected": arguments},
                hint="Return the gradients as a tuple: `return grad_x, grad_y`.",
            )
        names = ", ".join(quoted(parameters))
        return Match(
            f"`backward` returns {plural(raw.count, 'gradient')}, but `forward` takes "
            f"{plural(arguments, 'argument')} ({names}).",
            {
                "returned": raw.count,
                "expected": arguments,
                "line": return_line(evidence.contract.backward_source),
            },
        )
    if not found:
        return None
    return Match(
        f"the `backward` of an inner Function returns {plural(int(found[2]), 'gradient')}, but "
        f"autograd expects {found[1]}.",
        {"returned": int(found[2]), "expected": int(found[1])},
    )


def _wasted(evidence: Evidence, raw: DirectBackward) -> str:
    """Report a gradient for an argument that is not a tensor or that the caller did not pass.

    Return ``""`` if there is no such gradient.
    """
    given = zip(evidence.parameters, evidence.inputs, raw.kinds, strict=False)
    numbers = [
        name
        for name, value, kind in given
        if not isinstance(value, torch.Tensor) and kind != "NoneType"
    ]
    if numbers:
        name = numbers[0]
        return (
            f"`backward` returns a gradient for `{name}`, which is not a tensor. It must return "
            "None for this argument."
        )
    later = zip(evidence.omitted, raw.kinds[len(evidence.inputs) :], strict=False)
    for name, kind in later:
        if kind != "NoneType":
            return (
                f"`backward` returns a gradient for `{name}`, which this call does not pass. It "
                "must return None for this argument."
            )
    return ""


def _why_this_shape(got: Sequence[int], want: Sequence[int], source: str) -> str:
    """Return a hint if ``source`` contains a likely cause of the incorrect shape, else ``""``."""
    computed_dims = re.search(r"\.sum\((dim=)?(tuple|list|\w*(dims|axes))\b|\.sum\(\(\)", source)
    if not got and want and computed_dims:
        return (
            "An empty tuple of dims makes `sum` add up all elements, and not none of them. Call "
            "`sum` only if there is a dim to sum over, or call `grad.sum_to_size(x.shape)`."
        )
    if 0 in got and 0 not in want and re.search(r": *-\s*[^\W\d]", source):
        return (
            "A slice that ends at `-n` is empty if `n` is 0. Compute its end from the front: "
            "`x[n : n + length]`."
        )
    return ""


@rule(
    "gradient-shape",
    "contract",
    "error",
    "a gradient does not have the shape of its input",
    hint="Return each gradient in exactly the shape of its input: follow the shapes through the "
    "formula, and sum over every dim that `forward` broadcast or expanded.",
    lesson="03_gradient_patterns",
    after=("wrong-arity",),
)
def gradient_shape(evidence: Evidence) -> Match | None:
    for position, want, got in _raw_shapes(evidence):
        name = evidence.name(position)
        if got != want and not _sums_to(got, want) and not raw_transpose(evidence, position):
            return Match(
                f"`backward` returns a gradient of shape {shape(got)} for `{name}`, which has "
                f"shape {shape(want)}.",
                {
                    "input": name,
                    "expected": list(want),
                    "actual": list(got),
                    "line": return_line(evidence.contract.backward_source),
                },
                hint=_why_this_shape(got, want, evidence.contract.backward_source),
            )
    failure = backward_failure(evidence)
    found = failure and re.search(
        r"got (\[.*?\]) but expected shape compatible with (\[.*?\])", failure.text
    )
    if found and not (evidence.contract.direct and evidence.contract.direct.grads):
        return Match(
            f"the `backward` of an inner Function returns a gradient of shape {found[1]} for an "
            f"input of shape {found[2]}."
        )
    return None


def _raw_shapes(evidence: Evidence) -> list[tuple[int, torch.Size, torch.Size]]:
    if evidence.contract.direct is None:
        return []
    return [
        (i, evidence.inputs[i].shape, grad.shape)
        for i, grad in enumerate(evidence.contract.direct.grads[: len(evidence.inputs)])
        if grad is not None and i in evidence.wanted
    ]


def _sums_to(got: torch.Size, want: torch.Size) -> bool:
    """Return whether autograd would silently sum a gradient of shape ``got`` to shape ``want``."""
    if len(got) < len(want):
        return False
    trailing = got[len(got) - len(want) :]
    return all(size in (have, 1) for have, size in zip(trailing, want, strict=True))


@rule(
    "unreduced-broadcast",
    "contract",
    "error",
    "a gradient is larger than its input",
    hint="Sum the gradient over the dims that `forward` broadcast, and keep dims of size 1. "
    "`grad.sum_to_size(x.shape)` does both, where `x` is this input.",
    lesson="03_gradient_patterns",
)
def unreduced_broadcast(evidence: Evidence) -> Match | None:
    for position, want, got in _raw_shapes(evidence):
        name = evidence.name(position)
        if got != want and _sums_to(got, want):
            right = not any(m.name == name for m in mismatches(evidence))
            larger = got.numel() > want.numel()
            memory = "the larger gradient needs more memory, and " if larger else ""
            mended = (
                f"the sum is right. But {memory}code that calls `backward` directly gets the wrong "
                "shape"
                if right
                else "the sum is wrong, so the values are wrong as well"
            )
            if right and disagreement(evidence, "dim-argument"):
                right, mended = False, "the sum is right for this dim, but wrong for another one"
            return Match(
                f"`backward` returns a gradient of shape {shape(got)} for `{name}`, which has "
                f"shape {shape(want)}. Autograd silently sums it to that shape, and {mended}.",
                {"input": name, "expected": list(want), "actual": list(got)},
                "info" if right else "error",
            )
    return None


# --------------------------------------------------------------------------------------------------
# Rules about the dtype and the device of the gradients that backward returns.
# --------------------------------------------------------------------------------------------------

# Fragments of PyTorch's error messages for operations that have no kernel for the dtype.
UNSUPPORTED = (
    "not implemented for",
    "Low precision dtypes not supported",
    "Unsupported dtype",
    "is only supported for",
    "Expected both inputs to be Half, Float or Double",  # torch.complex
)


@rule(
    "gradient-dtype",
    "contract",
    "warning",
    "a gradient does not have the dtype of its input",
    hint="Create new tensors with the dtype of existing ones (`torch.zeros_like(x)`, "
    "`x.new_zeros(shape)`, `dtype=grad_output.dtype`), and convert masks with "
    "`.to(grad_output.dtype)`, not with `.float()`. `torch.where(mask, 1, 0.1)` returns float32: "
    "write `torch.where(mask, grad_output, 0.1 * grad_output)`.",
    lesson="03_gradient_patterns",
)
def gradient_dtype(evidence: Evidence) -> Match | None:
    if refused := _complex_for_a_real(evidence):
        return refused
    dtypes = [v for v in evidence.variants.dtypes if v.name != "meta"]
    crashed = [v for v in dtypes if v.failure and not _unsupported(v.failure.text)]
    if crashed and len(crashed) < len(dtypes):
        failure = crashed[0].failure
        assert failure is not None
        runs = " and ".join(v.name for v in dtypes if not v.failure)
        by_numpy = "unsupported ScalarType" in failure.text
        return Match(
            f"`backward` runs in {runs} but raises {failure.kind} in {crashed[0].name}: "
            f"{failure.text}",
            raised(failure) | ({"lacks": "NumPy"} if by_numpy else {}),
            "warning" if failure.runs_in_own_dtype else "error",
            hint=_NUMPY if by_numpy else "",
        )
    for variant in dtypes:
        for position, want, got in _unlike(evidence, variant):
            name = evidence.name(position)
            return Match(
                f"for {want} inputs, `backward` returns a {got} gradient for `{name}`, which "
                "autograd silently converts.",
                {"input": name, "expected": want, "actual": got},
                "warning" if _coarser(got, want) else "info",
            )
    return None


_NUMPY = (
    "Write the formula in PyTorch operations: NumPy does not support bfloat16, and it records no "
    "graph. If you must use NumPy, call `.float()` first."
)


def _coarser(got: str, want: str) -> bool:
    """Return whether dtype ``got`` is less precise than dtype ``want``."""
    lost, kept = (torch.finfo(getattr(torch, dtype)).eps for dtype in (got, want))
    return lost > kept


def _unsupported(text: str) -> bool:
    return any(words in text for words in UNSUPPORTED)


def _complex_for_a_real(evidence: Evidence) -> Match | None:
    """Report a real input for which ``backward`` returns a complex gradient.

    The report names the input, because autograd's own error message does not.
    """
    grads = evidence.contract.direct.grads if evidence.contract.direct else ()
    for position in evidence.wanted:
        grad = grads[position] if position < len(grads) else None
        if grad is not None and grad.is_complex() and not evidence.inputs[position].is_complex():
            name = evidence.name(position)
            return Match(
                f"`backward` returns a complex gradient for `{name}`, which is real. Autograd "
                "rejects it with an error that does not name the cause.",
                {"input": name, "expected": "real", "actual": "complex"},
                "error",
                "Return the real part: a real input cannot move in the imaginary direction.",
            )
    return None


def _unlike(evidence: Evidence, variant: Variant) -> list[tuple[int, str, str]]:
    grads = (
        evidence.contract.direct.grads if evidence.contract.direct else ()
    )  # empty if the doctor did not call backward directly
    kept = [i for i in evidence.wanted if i < len(grads) and grads[i] is not None]
    rows = zip(kept, variant.wanted, variant.got, strict=False)
    return [(i, want, got) for i, want, got in rows if got is not None and got != want]


@rule(
    "gradient-device",
    "contract",
    "error",
    "backward creates tensors on a fixed device",
    hint="Create new tensors on the device of existing ones: `torch.zeros_like(x)`, "
    "`x.new_zeros(shape)`, `device=grad_output.device`.",
    lesson="03_gradient_patterns",
    after=("gradient-shape", "wrong-arity", "gradient-dtype"),
)
def gradient_device(evidence: Evidence) -> Match | None:
    devices = {value.device.type for value in evidence.inputs if isinstance(value, torch.Tensor)}
    # a warning on the CPU, because the caller may never use another device
    severity: Severity = "warning" if devices == {"cpu"} else "error"
    source = evidence.contract.backward_source
    for variant in evidence.variants.dtypes:
        if variant.name != "meta":
            continue
        failure = variant.failure
        if failure and "device" in failure.text.lower():
            line = re.sub(r"^\w+: ", "", failure.line)  # the name of the function comes first
            made = _made_on_the_cpu(line, source) or _made_on_the_cpu(source, source)
            fails = "`backward` fails when its inputs are on another device, such as a GPU"
            return Match(
                f"`{made.call}` is always on the CPU, so {fails}."
                if made
                else f"{fails}: it mixes them with a tensor whose device is fixed.",
                {"exception": failure.kind, "line": failure.line},
                severity,
                made.hint if made else "",
            )
        for position, _, got in _unlike(evidence, variant):
            name, made = evidence.name(position), _made_on_the_cpu(source, source)
            because = f"`{made.call}` is always on the CPU, so " if made and got == "cpu" else ""
            return Match(
                f"{because}`backward` returns the gradient of `{name}` on the device `{got}`, "
                f"regardless of which device `{name}` is on.",
                {"input": name, "actual": got},
                severity,
                made.hint if made and because else "",
            )
    return None


@dataclass(frozen=True)
class _Made:
    """A call that creates a tensor on the CPU, and a hint with the call that should replace it."""

    call: str
    hint: str


# Functions of torch that create a tensor on the CPU if the call names no device.
_CREATING = (
    *("arange", "empty", "eye", "full", "linspace", "logspace", "ones", "rand", "randint"),
    *("randn", "randperm", "tensor", "tril_indices", "triu_indices", "zeros"),
)
LONGEST = 60  # a longer call makes the sentence hard to read


def _made_on_the_cpu(text: str, source: str) -> _Made | None:
    """Return the only call in a piece of a ``backward`` that creates a tensor without a device.

    Return ``None`` if there are several such calls, or if ``backward`` moves a tensor to the CPU.
    """
    if re.search(r"cpu|numpy", ast.unparse(_parsed(source)) or source):  # not in a comment
        return None
    found = {ast.unparse(node) for node in ast.walk(_parsed(text)) if _names_no_device(node)}
    if len(found) != 1:
        return None
    (call,) = found
    if len(call) > LONGEST:
        return None
    methods = [it for it in ast.walk(_parsed(source)) if isinstance(it, ast.FunctionDef)]
    parameters = [it.arg for it in methods[0].args.args] if methods else []
    of = parameters[1] if len(parameters) > 1 else "grad_output"
    return _Made(call, f"Write `{call[:-1]}{', ' * (call[-2] != '(')}device={of}.device)`.")


def _names_no_device(node: ast.AST) -> bool:
    """Return whether a call creates a tensor of at least one dimension without naming a device."""
    match node:
        case ast.Call(ast.Attribute(ast.Name("torch"), "tensor"), [ast.Constant(), *_]):
            return False  # a 0-dim tensor on the CPU works with tensors on any device
        case ast.Call(ast.Attribute(ast.Name("torch"), name), _, keywords):
            given = {keyword.arg for keyword in keywords}
            return name in _CREATING and not given & {"device", None}
    return False


def _parsed(text: str) -> ast.Module:
    """Return the syntax tree of a piece of code, or an empty one if it is not complete."""
    try:
        return ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return ast.Module([], [])

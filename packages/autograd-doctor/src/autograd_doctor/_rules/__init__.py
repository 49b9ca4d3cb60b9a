"""The rules: pure functions that take evidence and return a finding or ``None``.

``RULES`` lists all rules. Rules about the most basic causes come first. To add a rule, write it in
its family's module, add it to ``RULES``, and write its Markdown page next to the module.
"""

from __future__ import annotations

from autograd_doctor._rules import (
    backward,
    call_variants,
    efficiency,
    forward,
    linearity,
    precision,
    second_order,
    state,
    transforms,
    values,
)
from autograd_doctor._rules.rule import Rule

RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        forward.missing_staticmethod,
        forward.non_tensor_saved,
        forward.saved_tensors_in_forward,
        forward.wrong_mark_dirty,
        forward.mutates_input,
        forward.forward_raises,
        forward.backward_never_called,
        forward.returns_view,
        forward.wrong_non_differentiable,
        forward.default_dtype,
        backward.wrong_arity,
        backward.gradient_shape,
        backward.unreduced_broadcast,
        backward.gradient_dtype,
        backward.gradient_device,
        backward.backward_raises,
        backward.mutates_grad_output,
        backward.mutates_saved,
        backward.none_grad_output,
        state.nondeterministic,
        forward.depends_on_requires_grad,
        state.rng_not_restored,
        state.captured_tensor,
        state.recompute_side_effect,
        linearity.ignores_grad_output,
        linearity.nonlinear_in_grad_output,
        linearity.uniform_grad_output,
        forward.forward_mismatch,
        *values.VALUE_RULES,
        values.kink_convention,
        call_variants.grad_output_layout,
        call_variants.input_layout,
        call_variants.zero_size,
        call_variants.zero_dim,
        call_variants.frozen_input,
        precision.overflow,
        precision.precision,
        precision.inexact_forward,
        transforms.autocast,
        state.shared_state,
        state.not_reentrant,
        state.tensor_on_ctx,
        state.ctx_cycle,
        state.saved_twice,
        second_order.silent_double_backward,
        second_order.once_differentiable_leak,
        second_order.no_double_backward,
        transforms.wrong_jvp,
        transforms.silent_reverse_over_forward,
        transforms.wrong_vmap,
        transforms.compile_mismatch,
        transforms.func_incompatible,
        efficiency.wasted_gradient,
        efficiency.oversaved,
        efficiency.unneeded_function,
    )
}

__all__ = ["RULES", "Rule"]

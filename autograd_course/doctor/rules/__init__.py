"""The rule catalogue, in the order of work: contract, linearity in grad_output, values."""

from autograd_course.doctor.rules import contract, linearity, values  # registers, in this order
from autograd_course.doctor.rules.registry import RULES, Rule

__all__ = ["RULES", "Rule", "contract", "linearity", "values"]

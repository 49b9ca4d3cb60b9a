"""The rule catalogue: pure functions from evidence to a finding, in the order of work."""

from importlib import import_module

from autograd_course.doctor.rules.registry import RULES, Rule

ORDER_OF_WORK = (
    "forward_contract",
    "gradient_shapes",
    "gradient_placement",
    "backward_conduct",
    "repetition",
    "capture",
    "linearity",
    "forward_values",
    "gradient_values",
    "kinks",
    "layouts",
    "shapes",
    "masks",
    "extremes",
    "precision",
    "autocast",
    "state",
    "retention",
    "second_order",
    "transforms",
    "efficiency",
)

for _module in ORDER_OF_WORK:  # importing a module registers its rules
    import_module(f"{__name__}.{_module}")

__all__ = ["RULES", "Rule"]

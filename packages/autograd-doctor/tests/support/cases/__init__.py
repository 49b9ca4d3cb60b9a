"""Wrong Functions that a rule must name, and similar right ones that no rule may report.

The cases form one table, with a module for each family of rules.
"""

from cases import (
    conventions,
    data,
    efficiency,
    field,
    first_order,
    layout,
    numerics,
    order,
    realistic,
    state,
)
from cases.advised import ADVISED
from cases.making import Case
from cases.named import NAMED
from cases.worded import SAID

_FAMILIES = (
    first_order,
    layout,
    numerics,
    realistic,
    state,
    order,
    efficiency,
    conventions,
    data,
    field,
)

WITNESSES: list[Case] = [case for family in _FAMILIES for case in family.WITNESSES]
LOOKALIKES: list[Case] = [case for family in _FAMILIES for case in family.LOOKALIKES]
# A wrong Function for each branch of a rule that has its own wording.
BRANCHES: list[Case] = [*SAID, *ADVISED, *NAMED]

__all__ = ["BRANCHES", "LOOKALIKES", "WITNESSES", "Case"]

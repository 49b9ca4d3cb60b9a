"""Says what is wrong with a custom :class:`torch.autograd.Function`, by name.

``diagnose(fn, inputs)``
    examines a Function and returns a report.
``assert_gradients(fn, inputs)``
    does the same in a test.
``explain(rule)``
    returns the page of a rule.

``steps`` has the five steps that find a wrong gradient by hand, and ``memory`` measures what a call
keeps for backward. ``extension`` is for tools that are built on this one. Each name is imported
when it is first used, so that ``import autograd_doctor`` does not import PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograd_doctor.api import Examinable as Examinable
    from autograd_doctor.api import Inputs as Inputs
    from autograd_doctor.api import Level as Level
    from autograd_doctor.api import Sampler as Sampler
    from autograd_doctor.api import assert_gradients as assert_gradients
    from autograd_doctor.api import diagnose as diagnose
    from autograd_doctor.diagnosis import Diagnosis as Diagnosis
    from autograd_doctor.errors import AutogradDoctorError as AutogradDoctorError
    from autograd_doctor.errors import CannotDiagnoseError as CannotDiagnoseError
    from autograd_doctor.errors import UnknownRuleError as UnknownRuleError
    from autograd_doctor.errors import WrongGradientError as WrongGradientError
    from autograd_doctor.finding import Finding as Finding
    from autograd_doctor.finding import Severity as Severity
    from autograd_doctor.rules import RULES as RULES
    from autograd_doctor.rules import Rule as Rule
    from autograd_doctor.rules import explain as explain

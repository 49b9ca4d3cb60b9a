"""Find the section of a lesson that a learner should reread after a mistake."""

from __future__ import annotations

from autograd_course.grader.exercise import Exercise, Section

_INSTANTIATED = Section(1, "The class is never instantiated")
_ON_CTX = Section(1, "What goes where on ctx")
_ON_CTX_IN_FULL = Section(2, "What goes where, and what goes wrong otherwise")
_RETURNS = Section(1, "What backward returns")
_ASKED_FOR = Section(1, "What backward is asked for")
_MUST_NOT_TOUCH = Section(2, "What backward must not touch")
_MARK_DIRTY = Section(2, "Writing in place: mark_dirty")

# If two lessons cover a rule, the entry lists both sections, the earlier lesson first. For a rule
# without an entry, the exercise names the section to reread.
SECTIONS: dict[str, tuple[Section, ...]] = {
    "missing-staticmethod": (_INSTANTIATED,),
    "backward-never-called": (_INSTANTIATED,),
    "non-tensor-saved": (_ON_CTX, _ON_CTX_IN_FULL),
    "saved-tensors-in-forward": (_ON_CTX,),
    "shared-state": (_ON_CTX,),
    "tensor-on-ctx": (_ON_CTX, _ON_CTX_IN_FULL),
    "wrong-arity": (_RETURNS,),
    "gradient-shape": (_RETURNS,),
    "ignores-grad-output": (_ASKED_FOR,),
    "nonlinear-in-grad-output": (_ASKED_FOR,),
    "uniform-grad-output": (_ASKED_FOR,),
    "wasted-gradient": (Section(2, "needs_input_grad, measured"),),
    "mutates-grad-output": (_MUST_NOT_TOUCH,),
    "mutates-saved": (_MUST_NOT_TOUCH,),
    "mutates-input": (_MARK_DIRTY,),
    "wrong-mark-dirty": (_MARK_DIRTY,),
    "returns-view": (Section(2, "Returning an input"),),
    "wrong-non-differentiable": (Section(2, "Outputs without a gradient"),),
    "none-grad-output": (Section(2, "Zeros or None: set_materialize_grads"),),
}

_OF_FORWARD = ("forward-mismatch", "forward-raises")


def section_to_read(exercise: Exercise, rule: str = "") -> Section | None:
    """Return the last section about the rule in the exercise's lesson or an earlier lesson.

    If only later lessons cover the rule, return the first section about it. If no lesson covers the
    rule, return the section that the exercise names. If forward is wrong, do not return a section
    about backward.
    """
    if rule in _OF_FORWARD and exercise.section_is_on_backward:
        return None
    if rule not in SECTIONS:
        return exercise.read
    first, *others = SECTIONS[rule]
    so_far = [section for section in others if section.lesson <= int(exercise.lesson[:2])]
    return [first, *so_far][-1]

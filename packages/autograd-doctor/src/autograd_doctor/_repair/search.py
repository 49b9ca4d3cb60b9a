"""Search for an edit to the author's code that corrects every gradient.

To try an edit, the search calls the edited ``backward`` on the graph node of an existing forward
pass. Then it compares the result with the expected gradients in the evidence. If an edit works on
the example and on other inputs, the search verifies it on inputs that it has not used before.

The search itself only reads the source and never runs it. A :class:`~.runner.Runner` runs the
edits, in this process or in a sandbox.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, groupby, islice, product
from operator import itemgetter

from autograd_doctor._execution.time_limit import TimeUp
from autograd_doctor._repair.contract import (
    Definition,
    Saved,
    fixes_for,
    more_saved,
    nodes_of,
    shapes_kept,
)
from autograd_doctor._repair.edits import (
    COMPUTING,
    KINDS,
    SAVING,
    Edit,
    Place,
    concerning,
    edits_of,
    parse,
    said_of,
    scope_of,
    sooner,
)
from autograd_doctor._repair.runner import Runner, helps
from autograd_doctor._repair.source import Fix, Method, changes_of, scope_in
from autograd_doctor.finding import Finding
from autograd_doctor.repair import Change, Repair

SECONDS = 0.5  # seconds to try new edits; after that, the search only verifies its results
MORE_SECONDS = 0.2  # more seconds for formulas, and for pairs that fix all gradients together
MOST_VERIFIED = 12  # candidates
MOST_PARTIAL = 2  # candidates that correct only some gradients
PARTIAL = 12  # edits that correct the same gradients and are combined with other edits
FIRST_OF_TWO = 2  # edits that correct some gradients and are each combined with a second edit
FORMULAS_FITTING = 8  # formulas that correct the same gradients; the simplest come first
MOST_ALIKE = 6  # pairs of places for each edit that the search applies twice
FORMULAS = 1.35  # the search tries formulas before edits that cost more than this
# Kinds of edits that the search for formulas already covers.
AS_FORMULAS = ("a factor", "a composed factor", "a wide factor", "a projection")
LIKELY = 1.2  # edits that cost at most this are combined in pairs
LONGEST = 60  # characters of code in a summary
KINDS_IN = {"backward": KINDS, "setup_context": SAVING, "forward": SAVING}


@dataclass(frozen=True)
class Candidate:
    """Edits that corrected the gradients on the inputs of the search."""

    fix: Fix
    file: str
    changes: tuple[Change, ...]

    @property
    def rank(self) -> tuple[float, int, int, int]:
        """The sort key for candidates. Likely edits come first, followed by short ones.

        If two edits are equally likely and equally long, the edit that replaces the whole right
        side of a statement comes first, even if it needs parentheses. Then come candidates without
        parentheses. Most authors write -1 for the last dim, so the minus sign does not count.
        """
        texts = [("".join(it.before), "".join(it.after)) for it in self.changes]
        before, after = ("".join(it).replace("-1", "1") for it in zip(*texts, strict=True))
        parts = sum(not isinstance(edit.place[0], ast.stmt) for _, edit in self.fix)
        brackets = sum(after.count(it) - before.count(it) for it in "()")
        more = len(after) - len(before)
        return _cost(self.fix), more - brackets, parts, brackets

    @property
    def edits(self) -> Sequence[Edit]:
        """The edits, without the methods that they change."""
        return [edit for _, edit in self.fix]

    @property
    def summary(self) -> str:
        """The old and the new code, in general terms that also apply to other people's code."""
        return "; ".join(_described(method, edit) for method, edit in self.fix)


def _described(method: Method, edit: Edit) -> str:
    if isinstance(edit.new, tuple):
        missing = [it for it in edit.new if it is not edit.old]
        where = f"in `{method.name}`"
        if not missing:
            return f"`{_short(edit.old)}` too much {where}"
        without = f"`{_short(missing[0])}`"
        kept = len(missing) < len(edit.new)
        return f"no {without} {where}" if kept else f"no {without} in the place of a line {where}"
    shown = isinstance(edit.old, ast.expr | ast.stmt)
    node = edit.old if shown else edit.place[0]
    before = _short(node)
    with edit.made():
        after = _short(edit.new if shown else node)
    match edit.old, edit.new:  # two methods of the same object
        case ast.Attribute(a, was), ast.Attribute(b, becomes) if ast.dump(a) == ast.dump(b):
            before, after = was, becomes
    return f"`{before}` instead of `{after}` {_where(method, edit)}"


def _where(method: Method, edit: Edit) -> str:
    for node in ast.walk(method.tree):
        if isinstance(node, ast.stmt) and any(it is edit.place[0] for it in ast.walk(node)):
            holder = node  # the innermost node comes last
    match holder:
        case ast.Return():
            return f"in the return statement of `{method.name}`"
        case ast.Assign([ast.Name(name)]) | ast.AugAssign(ast.Name(name)):
            return f"in the line for `{name}` in `{method.name}`"
        case ast.Expr(ast.Call(ast.Attribute(_, call))):
            return f"in `{call}`"
    return f"in `{method.name}`"


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def search(
    runner: Runner,
    finding: Finding,
    seconds: float | None = None,
    known: Collection[Signature] = (),
) -> Repair | None:
    """Return the most likely repair that removes a finding, or ``None`` if none is found in time.

    Args:
        runner: Runs the edits.
        finding: The finding to repair.
        seconds: How many seconds the search may take. The default is :data:`SECONDS`.
        known: Edits that repaired the same mistake in other people's code. The search tries them
            first.
    """
    deadline = runner.now() + (SECONDS if seconds is None else seconds)
    fixes = fixes_for(Definition(runner.methods), finding)
    found = (it for fix in fixes for it in _candidate(fix))
    if repair := _first_verified(runner, found, deadline, patient=True):
        return repair
    if finding.rule == "forward-mismatch":
        return _first_verified(runner, islice(_right_outputs(runner, deadline), MOST_VERIFIED))
    if finding.severity != "error":
        return None
    as_it_is = next((right for _, right in runner.gradients([()])), None)
    if as_it_is is None or (as_it_is and all(as_it_is)):
        return None  # no expected gradient is known, or all gradients are already correct
    wrong = [k for k, right in enumerate(as_it_is) if not right]  # among the wanted gradients
    values = _right_values(runner, finding, wrong, deadline, known)
    return _first_verified(runner, islice(values, MOST_VERIFIED))


def _first_verified(
    runner: Runner,
    candidates: Iterable[Candidate],
    deadline: float = math.inf,
    *,
    patient: bool = False,
) -> Repair | None:
    """Return the first repair that removes all errors.

    If there is none, return the first repair that removes one of several errors. Unless ``patient``
    is set, stop at a repair that corrects the values and leaves only an error of another kind.
    """
    partial = None
    try:
        for candidate in candidates:
            if runner.now() > deadline:
                break
            if repair := runner.verify(candidate.fix):
                found = replace(
                    repair,
                    file=candidate.file,
                    changes=candidate.changes,
                    summary=candidate.summary,
                    kinds=tuple(dict.fromkeys(filter(None, map(said_of, candidate.edits)))),
                    signatures=tuple(signature(*it) for it in candidate.fix),
                )
                if not found.left or (found.checked_on and not patient):
                    return found
                partial = partial or found
    except TimeUp:
        if partial is None:
            raise
    return partial


def _right_values(
    runner: Runner,
    finding: Finding,
    wrong: Sequence[int],
    deadline: float,
    known: Collection[Signature],
) -> Iterator[Candidate]:
    """Yield edits and pairs of edits that correct every gradient, most likely first.

    If none is found in time, yield edits that correct only some of the wrong gradients.
    """
    rule, backward = finding.rule, runner.methods.get("backward")
    places = [runner.wanted[k] for k in wrong]
    concerns = concerning(backward.tree, places) if backward else lambda edit: True
    found: list[Candidate] = []  # with the same cost
    some: list[Partial] = []
    of_backward: list[Edit] = []
    paired: Paired = set()

    first = {kind for _, kind, _, _ in known}
    again = (
        ((method, edit),)
        for method, edit in _attempts(runner.methods, rule, first)
        if signature(method, edit) in known
    )
    for fix, right in runner.gradients(again if known else (), wrong):
        if right and all(right):
            yield from _candidate(fix)

    def tried() -> Iterator[Fix]:
        for method, edit in _attempts(runner.methods, rule):
            if method is backward and not concerns(edit):
                continue
            if runner.sees_values and edit.kind in AS_FORMULAS:
                continue
            if method is backward:
                of_backward.append(edit)
            if not edit.is_idle:
                yield ((method, edit),)

    cost = -math.inf
    latest = deadline + MORE_SECONDS
    compared = backward is None or not runner.sees_values  # whether formulas have been compared
    for fix, right in runner.gradients(tried(), wrong):
        ((method, edit),) = fix
        if sooner(rule, edit) > cost or runner.now() > deadline:
            yield from sorted(found, key=lambda it: it.rank)
            found, cost = [], sooner(rule, edit)
        if runner.now() > deadline:
            break
        if backward and not compared and cost >= FORMULAS:
            compared = True
            # Few edits fix some gradients but not all, so the search tries their pairs first.
            pairs = _complementary(some, paired)
            together = _found_together(runner, backward, pairs, wrong, latest)
            yield from sorted(together, key=lambda it: it.rank)
            yield from _with_formulas(
                runner, backward, wrong, concerns, some, paired, of_backward, latest
            )
        if right and all(right):
            found += _candidate(fix)
        elif helps(right, wrong) and method is backward:
            some.append((fix, right))
    yield from sorted(found, key=lambda it: it.rank)
    if backward and rule in OF_SHAPES:
        yield from _with_shapes_kept(runner, backward, wrong, concerns, latest)
    if backward and not compared and runner.now() < latest:
        yield from _with_formulas(
            runner, backward, wrong, concerns, some, paired, of_backward, latest
        )
    if backward is not None:
        pairs = _complementary(some, paired)
        together = _found_together(runner, backward, pairs, wrong, latest)
        yield from sorted(together, key=lambda it: it.rank)
        pairs = chain(
            _on_top(runner, some, of_backward),
            _alike(of_backward),
            _likely_pairs(of_backward),
        )
        together = _found_together(runner, backward, pairs, wrong, deadline)
        yield from sorted(together, key=lambda it: it.rank)
        yield from _with_more_saved(runner, backward, wrong, concerns, latest)
    for fix in islice(_partial(runner, some, wrong), MOST_PARTIAL):
        yield from _candidate(fix)


COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _computed_repeatedly(method: Method) -> set[int]:
    """Return the ids of the nodes in comprehensions. Formulas do not replace their values."""
    inside = (it for it in ast.walk(method.tree) if isinstance(it, COMPREHENSIONS))
    return {id(node) for each in inside for node in ast.walk(each)}


def _with_more_saved(
    runner: Runner,
    backward: Method,
    wrong: Sequence[int],
    concerns: Callable[[Edit], bool],
    deadline: float,
) -> Iterator[Candidate]:
    """Yield edits to ``backward`` that use an input or output that ``forward`` does not save."""
    places = [
        place
        for place, node in nodes_of(backward)
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and node.id not in (backward.ctx, "torch", "F", "math")
    ]
    more = ((saved, [saved.name]) for saved in more_saved(Definition(runner.methods)))
    yield from _with_values(runner, backward, wrong, concerns, deadline, places, more)


# Rules that may report an error because backward does not know the shape of an input.
OF_SHAPES = ("gradient-shape", "backward-raises")


def _with_shapes_kept(
    runner: Runner,
    backward: Method,
    wrong: Sequence[int],
    concerns: Callable[[Edit], bool],
    deadline: float,
) -> Iterator[Candidate]:
    """Yield edits to ``backward`` that read a shape that ``forward`` does not store on ``ctx``."""
    places = [place for place, node in nodes_of(backward) if _is_a_length(node)]
    more = (
        (saved, [saved.name, *(f"{saved.name}[{dim}]" for dim in (-1, 0, 1))])
        for saved in shapes_kept(Definition(runner.methods))
    )
    yield from _with_values(runner, backward, wrong, concerns, deadline, places, more)


def _is_a_length(node: ast.AST) -> bool:
    """Return whether an expression calculates with lengths, counts or whole shapes."""
    kinds = ast.BinOp | ast.Subscript | ast.Call | ast.Tuple | ast.Attribute
    if not isinstance(node, kinds) or isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
        return False
    parts = [*ast.walk(node)]
    return any(isinstance(it, ast.Name) and it.id in ("int", "len") for it in parts) or any(
        isinstance(it, ast.Attribute) and it.attr in ("shape", "numel", "size") for it in parts
    )


def _with_values(
    runner: Runner,
    backward: Method,
    wrong: Sequence[int],
    concerns: Callable[[Edit], bool],
    deadline: float,
    places: Sequence[Place],
    more: Iterable[tuple[Saved, Sequence[str]]],
) -> Iterator[Candidate]:
    """Yield edits that use new values in ``backward``, combined with fixes that save the values."""
    for saved, texts in more:
        edits = (
            Edit("something else saved", 1.3, it, parse(text)) for it in places for text in texts
        )
        fixes = (((backward, edit),) for edit in edits if concerns(edit))
        for fix, right in runner.gradients_if_saved(fixes, saved, wrong):
            if right and all(right):
                yield from _candidate((*fix, *saved.fix))
            if runner.now() > deadline:
                return


def _with_formulas(
    runner: Runner,
    backward: Method,
    wrong: Sequence[int],
    concerns: Callable[[Edit], bool],
    some: list[Partial],
    paired: Paired,
    edits: Sequence[Edit],
    deadline: float,
) -> Iterator[Candidate]:
    """Yield formulas, and the candidates that the search tries directly after the formulas.

    These candidates are factors in comprehensions, then pairs of edits that include a formula, then
    the same edit at several places. Append formulas that correct only some of the gradients to
    ``some``.
    """
    found, partly = _formulas(runner, backward, wrong, concerns)
    by_cost = sorted(found, key=_cost)
    for _, alike in groupby(by_cost, _cost):  # the caller needs only a few of them
        candidates = [it for fix in alike for it in _candidate(fix)]
        yield from sorted(candidates, key=lambda it: it.rank)
    some += partly
    attempts = _attempts(runner.methods, "", ("a factor",))
    factors = [edit for method, edit in attempts if method is backward and concerns(edit)]
    repeated = _computed_repeatedly(backward)
    single: Iterable[Together] = ((it,) for it in factors if id(it.place[0]) in repeated)
    for pairs in (single, _complementary(some, paired), _alike([*edits, *factors])):
        together = _found_together(runner, backward, pairs, wrong, deadline)
        yield from sorted(together, key=lambda it: it.rank)


def _formulas(
    runner: Runner, backward: Method, wrong: Sequence[int], concerns: Callable[[Edit], bool]
) -> tuple[list[Fix], list[Partial]]:
    """Return the formulas that correct every gradient, and those that correct only some."""
    known = [it for it in runner.methods.values() if it.owners in ((), ("backward",))]
    scope = scope_in(backward, known)
    found: list[Fix] = []
    some: list[Partial] = []
    groups = [wrong] if len(wrong) == 1 else [wrong, *([slot] for slot in wrong)]
    for slots, edits in groupby(runner.formulas(scope, groups, concerns), key=itemgetter(0)):
        if found and slots is not wrong:
            break
        fixes: Iterator[Fix] = (((backward, edit),) for _, edit in edits)
        enough = 0
        for fix, right in runner.gradients(fixes, wrong):
            if right and all(right):
                found.append(fix)
            elif helps(right, wrong):
                some.append((fix, right))
            kept = all(it for slot, it in enumerate(right) if slot not in wrong)
            enough += helps(right, wrong) and kept
            if enough == FORMULAS_FITTING:
                break
    return found, some


def _cost(fix: Fix) -> float:
    return sum(edit.cost for _, edit in fix)


Partial = tuple[Fix, tuple[bool, ...]]
"""An edit that corrects only some of the gradients, with a flag for each gradient."""


def _partial(runner: Runner, some: Sequence[Partial], wrong: Sequence[int]) -> Iterator[Fix]:
    """Yield edits that correct some of the wrong gradients and cannot affect the remaining ones."""
    for fix, right in some:
        ((method, edit),) = fix
        still = [runner.wanted[k] for k in wrong if not right[k]]
        if len(still) < len(wrong) and not concerning(method.tree, still)(edit):
            yield fix


Signature = tuple[str, str, str, str]
"""A method, a kind of edit, and the old and new code. They identify the same edit in other code."""


def signature(method: Method, edit: Edit) -> Signature:
    """Return a key that identifies the same edit in other code."""
    texts = [ast.unparse(it) if isinstance(it, ast.AST) else "" for it in (edit.old, edit.new)]
    return method.name, edit.kind, texts[0], texts[1]


def _attempts(
    methods: Mapping[str, Method], rule: str, only: Collection[str] = ()
) -> Iterator[tuple[Method, Edit]]:
    """Yield every edit to the methods, most likely first. Create each edit only when needed.

    ``only`` restricts the search to some kinds of edits.
    """
    known = [it for it in methods.values() if it.owners in ((), ("backward",))]
    scopes = {method: scope_in(method, known) for method in known}
    kinds = [(kind, method) for method in scopes for kind in KINDS_IN.get(method.name, KINDS)]
    kinds = [(kind, method) for kind, method in kinds if not only or kind.name in only]
    for kind, method in sorted(kinds, key=lambda it: sooner(rule, it[0])):
        for edit in edits_of(scopes[method], [kind]):
            yield method, edit


def _right_outputs(runner: Runner, deadline: float) -> Iterator[Candidate]:
    """Yield edits to ``forward`` and its helpers that make the outputs match the reference."""
    computing = [it for it in runner.methods.values() if "forward" in (it.name, *it.owners)]
    trees = [it.tree for it in runner.methods.values()]
    scopes = {it: scope_of(it.tree, it.ctx, it.free, trees) for it in computing}
    kinds = [(kind, method) for method in computing for kind in COMPUTING]
    fixes = (
        ((method, edit),)
        for kind, method in sorted(kinds, key=lambda it: it[0].cost)
        for edit in edits_of(scopes[method], [kind])
        if not edit.is_idle
    )
    found: list[Candidate] = []  # with the same cost
    cost = -math.inf
    for fix, right in runner.outputs(fixes):
        if fix[0][1].cost > cost or runner.now() > deadline:
            yield from sorted(found, key=lambda it: it.rank)
            found, cost = [], fix[0][1].cost
        if runner.now() > deadline:
            return
        if right:
            found += _candidate(fix)
    yield from sorted(found, key=lambda it: it.rank)


def _candidate(fix: Fix) -> Iterator[Candidate]:
    """Yield a candidate with these edits, if they can be written into the author's file."""
    by_method: dict[Method, list[Edit]] = {}
    for method, edit in fix:
        by_method.setdefault(method, []).append(edit)
    changes = [changes_of(method, part) for method, part in by_method.items()]
    files = {method.file for method in by_method}
    if all(changes) and len(files) == 1:
        together = sorted((it for part in changes for it in part), key=lambda it: it.line)
        yield Candidate(fix, files.pop(), tuple(together))


# --------------------------------------------------------------------------------------------------
# Several mistakes.
# --------------------------------------------------------------------------------------------------

Together = tuple[Edit, ...]


Paired = set[frozenset[int]]
"""The pairs of edits that the search has tried, identified by the ids of the edits."""


def _complementary(some: Sequence[Partial], paired: Paired) -> Iterator[Together]:
    """Yield pairs of edits that each correct some gradients and together correct all of them.

    Skip the pairs in ``paired``, and add the new pairs to it.
    """
    groups: dict[tuple[bool, ...], list[Edit]] = {}
    for ((_, edit),), right in sorted(some, key=lambda it: it[0][0][1].cost):
        groups.setdefault(right, []).append(edit)
    pairs = (
        pair
        for here, there in combinations(groups, 2)
        if all(a or b for a, b in zip(here, there, strict=True))
        for pair in product(groups[here][:PARTIAL], groups[there][:PARTIAL])
    )
    for pair in sorted(pairs, key=lambda pair: sum(edit.cost for edit in pair)):
        if (ids := frozenset(map(id, pair))) not in paired:
            paired.add(ids)
            yield pair


def _on_top(runner: Runner, some: Sequence[Partial], edits: Sequence[Edit]) -> Iterator[Together]:
    """Combine an edit that corrects some gradients with edits that might correct the others."""
    for ((method, one),), right in some[:FIRST_OF_TWO]:
        places = [place for place, it in zip(runner.wanted, right, strict=True) if not it]
        concerns = concerning(method.tree, places)
        inside = {id(node) for node in ast.walk(one.old)}
        for other in edits:
            around = {id(node) for node in ast.walk(other.old)}
            apart = id(one.place[0]) not in around and id(other.place[0]) not in inside
            if concerns(other) and apart and other.place != one.place:
                yield one, other


def _alike(edits: Sequence[Edit]) -> Iterator[Together]:
    """Yield the same edit at several places, because authors often repeat a mistake.

    Each result covers all matching places in a method, all matching places in a line, or two
    matching places.
    """
    groups: dict[tuple[str, str, str], list[Edit]] = {}
    for edit in edits:
        if edit.kind in ("an accumulation", "another denominator"):
            divisor = edit.new.right if isinstance(edit.new, ast.BinOp) else ast.Constant("")
            groups.setdefault((edit.kind, "", ast.unparse(divisor)), []).append(edit)
        elif isinstance(edit.old, ast.Name | ast.Attribute | ast.Constant) and isinstance(
            edit.new, ast.expr
        ):
            key = edit.kind, ast.unparse(edit.old), ast.unparse(edit.new)
            groups.setdefault(key, []).append(edit)
    for group in groups.values():
        lines = [tuple(part) for _, part in groupby(group, lambda edit: _line(edit.old))]
        if len(group) > 2:
            yield tuple(group)
            yield from (line for line in lines if 2 < len(line) < len(group))
        yield from islice(combinations(group, 2), MOST_ALIKE)


def _line(node: ast.AST) -> int:
    return node.lineno if isinstance(node, ast.expr | ast.stmt) else 0


def _likely_pairs(edits: Sequence[Edit]) -> Iterator[Together]:
    """Yield pairs of likely edits that change different parts of the code."""
    likely = [edit for edit in edits if edit.cost <= LIKELY]
    inside = [{id(node) for node in ast.walk(edit.old)} for edit in likely]
    places = [id(edit.place[0]) for edit in likely]
    pairs = combinations(range(len(likely)), 2)
    for i, j in sorted(pairs, key=lambda pair: sum(likely[k].cost for k in pair)):
        if places[i] not in inside[j] and places[j] not in inside[i]:
            yield likely[i], likely[j]


def _found_together(
    runner: Runner,
    method: Method,
    pairs: Iterable[Together],
    wrong: Sequence[int],
    deadline: float = math.inf,
) -> Iterator[Candidate]:
    """Yield the first pairs that correct every gradient, until time runs out."""
    cost = math.inf
    fixes = (tuple((method, edit) for edit in edits) for edits in pairs)
    for fix, right in runner.gradients(fixes, wrong):
        total = _cost(fix)
        if runner.now() > deadline or total > cost:
            return
        if right and all(right):
            cost = total
            yield from _candidate(fix)

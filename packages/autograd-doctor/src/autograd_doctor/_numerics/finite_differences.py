"""Compute the expected derivative by central differences in float64.

Richardson extrapolation combines two step sizes into a fourth-order value and an estimate of its
error. The same four points distinguish a kink or a jump from a smooth function: at a smooth point,
the second difference shrinks with the step, but at a kink it does not.

Derivatives along a few random directions take only a few evaluations, and they detect a wrong
gradient at any element. The full Jacobian, computed column by column, shows which elements are
wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._numerics.structure import is_symmetric
from autograd_doctor.evidence import DirectionalDerivatives, JacobianColumns

STEP = 1e-3  # relative to an element: h⁴ and the rounding error ε/h are then both close to 1e-12
CLOSER = 32  # divides the step at an element where the function seems to have a kink
TINY = 3e-7  # relative to an element: a few units in the last place of float32
PEEKS = 5  # multiples of TINY to examine, because a single distance may show nothing by chance
DIRECTIONS = 2
AT_ONCE = 32  # columns that are computed at the same time, each from four points
MOST_COLUMNS = 256  # maximum number of columns for each input; larger inputs are sampled
MOST_ENTRIES = 2**22  # maximum size of a matrix (32 MB); with many outputs, there are fewer columns

Values = Callable[[Sequence[Any]], Tensor]  # maps arguments to all outputs, flat and real


# maps a position and a direction to a direction that keeps a structure
Keep = Callable[[int, Tensor], Tensor]


def slopes(
    values: Values,
    inputs: Sequence[Any],
    wanted: Sequence[int],
    rng: torch.Generator,
    keep: Keep | None = None,
    step: float = STEP,
) -> DirectionalDerivatives:
    """Compute derivatives along random directions.

    Each direction moves every element of the wanted inputs. ``keep`` can change a direction so that
    an input keeps its structure. ``step`` is relative to the magnitude of each element.
    """
    scales = [_scale(_real(inputs[position])) for position in wanted]
    vectors = []
    for _ in range(DIRECTIONS):
        vector = [scale * _signed(scale, rng) for scale in scales]
        if keep is not None:
            vector = [keep(i, v) for i, v in zip(wanted, vector, strict=True)]
        vectors.append(vector)
    return along(values, inputs, wanted, vectors, step)


def along(
    values: Values,
    inputs: Sequence[Any],
    wanted: Sequence[int],
    vectors: Sequence[list[Tensor]],
    step: float = STEP,
) -> DirectionalDerivatives:
    """Compute derivatives along given directions, each with one vector per wanted input."""
    center, found = values(copied(inputs)), []
    for vector in vectors:

        def at(offset: float, vector: list[Tensor] = vector) -> Tensor:
            return values(moved_by(inputs, wanted, [offset * v for v in vector]))

        found.append(points(at, step))
    value, error, smooth = derivatives(
        torch.stack(found), torch.tensor(step, dtype=torch.float64), center, 1.0
    )
    by_input = tuple(torch.stack(column, 1) for column in zip(*vectors, strict=True))
    return DirectionalDerivatives(by_input, _turned(value), _turned(error), smooth)


MOST_TIES = 8  # maximum number of groups of equal elements


def with_ties(
    values: Values,
    inputs: Sequence[Any],
    wanted: Sequence[int],
    columns: Sequence[JacobianColumns],
) -> tuple[tuple[JacobianColumns, ...], DirectionalDerivatives | None]:
    """Compute derivatives along directions that move equal elements together.

    The maximum of several equal elements is not differentiable with respect to any single one, but
    it is differentiable if they all change together. The median of three equal elements does not
    change if only one of them changes. If the derivatives for the single elements do not add up to
    the derivative for all of these elements together, the elements are at a kink.

    Returns:
        The columns with these kinks marked, and the derivatives.
    """
    if any(inputs[position].is_complex() for position in wanted):
        return tuple(columns), None
    examined = [
        _real(inputs[position])[found.index.to(inputs[position].device)].cpu()
        for position, found in zip(wanted, columns, strict=True)
    ]
    elements = torch.cat(examined)
    numbers, counts = elements.unique(return_counts=True)
    tied = numbers[(counts > 1) & numbers.isfinite()]
    smooth = torch.cat([found.smooth for found in columns])
    at_kinks = torch.isin(tied, elements[~smooth])  # these groups come first
    first = torch.cat([tied[at_kinks], tied[~at_kinks]]).tolist()[:MOST_TIES]
    # The largest magnitude of 1 and -1 is differentiable if both grow together.
    sizes = numbers[(numbers > 0) & torch.isin(-numbers, numbers) & numbers.isfinite()]
    moves = [partial(_if_equal, number) for number in first]
    moves += [partial(_if_as_large, number) for number in sizes.tolist()[:MOST_TIES]]
    directions = [
        [
            _at_index(_real(inputs[position]), found.index, move)
            for position, found in zip(wanted, columns, strict=True)
        ]
        for move in moves
    ]
    if not directions:
        return tuple(columns), None
    together = along(values, inputs, wanted, directions)
    parts = [
        vectors[found.index.to(vectors.device)]
        for found, vectors in zip(columns, together.vectors, strict=True)
    ]
    added = sum(found.matrix @ part for found, part in zip(columns, parts, strict=True))
    errors = sum(found.error @ part for found, part in zip(columns, parts, strict=True))
    least = 3 * (errors + together.error) + 1e-6 * together.matrix.abs() + 1e-9
    off = ((added - together.matrix).abs() > least).any(0).cpu() & together.smooth
    return tuple(
        replace(found, smooth=found.smooth & ~(part[:, off.to(part.device)] != 0).any(1).cpu())
        for found, part in zip(columns, parts, strict=True)
    ), together


def _at_index(real: Tensor, index: Tensor, move: Callable[[Tensor], Tensor]) -> Tensor:
    """Return a direction that moves the examined elements as ``move`` says."""
    vector = torch.zeros_like(real)
    index = index.to(real.device)
    vector[index] = move(real[index]).to(real)
    return vector


def _if_equal(number: float, elements: Tensor) -> Tensor:
    """Move the elements with this value."""
    return torch.where(elements == number, abs(number) or 1.0, 0.0)


def _if_as_large(number: float, elements: Tensor) -> Tensor:
    """Scale the elements with this magnitude."""
    return torch.where(elements.abs() == number, elements, 0.0)


def jacobian(
    values: Values,
    inputs: Sequence[Any],
    wanted: Sequence[int],
    places: Sequence[Tensor] | torch.Generator,
    most: int = MOST_COLUMNS,
) -> tuple[JacobianColumns, ...]:
    """For each wanted input, return the Jacobian's columns at the flat positions in ``places``.

    If ``places`` is a random generator, use all positions, or a random sample if there are more
    than ``most``.
    """
    center = values(copied(inputs))
    noise = _noise(values, inputs, wanted, center)
    if isinstance(places, torch.Generator):
        places = [_sample(inputs[i], center.numel(), places, most) for i in wanted]
    return tuple(
        _columns(values, inputs, position, center, noise, index)
        for position, index in zip(wanted, places, strict=True)
    )


def affordable(most: int, entries: int, in_all: int = MOST_ENTRIES) -> int:
    """Return how many rows or columns to compute (at least one), given the size of each one."""
    return max(1, min(most, in_all // max(1, entries)))


def _sample(value: Tensor, outputs: int, rng: torch.Generator, most: int) -> Tensor:
    """Return the flat positions of an input to examine: all, or a sample if there are too many.

    The sample contains an element of a symmetric matrix only together with its mirror image.
    """
    elements, most = _real(value).numel(), affordable(most, outputs)
    if elements <= most:
        return torch.arange(elements)
    order = torch.randperm(elements, generator=rng)
    if not value.is_complex() and is_symmetric(value):
        mirrored = torch.arange(elements).view(value.shape).mT.reshape(-1)
        half = order[: max(1, most // 2)]
        both: Tensor = torch.cat([half, mirrored[half]]).unique()
        return both
    return order[:most].sort().values


def _noise(values: Values, inputs: Sequence[Any], wanted: Sequence[int], center: Tensor) -> Tensor:
    """For each output value of forward, return how much it jumps after tiny changes to the inputs.

    The values jump if forward computes in float32, or if it stops iterating at a tolerance. Values
    that float32 can represent exactly form a separate group, because one output can contain both
    kinds. The result for each group is the median, because a kink or a step at one element is not
    noise.
    """
    bends, rises, moved = [], [], [center]
    for k in range(1, PEEKS + 1):
        tiny = [k * TINY * _scale(_real(inputs[position])) for position in wanted]
        above = values(moved_by(inputs, wanted, tiny))
        below = values(moved_by(inputs, wanted, [-offset for offset in tiny]))
        bends.append((above - 2 * center + below) / center)
        rises.append((above - center) / center)
        moved += [above, below]
    jumps = torch.zeros_like(center)
    for k in range(1, PEEKS):  # a curve rises linearly with the distance, and bends quadratically
        bend = bends[k - 1] - (k / PEEKS) ** 2 * bends[-1]
        # The rise reveals inputs that forward rounds to float32. The bend can miss them, because
        # both sides are rounded in the same way.
        rise = rises[k - 1] - k / PEEKS * rises[-1]
        jumps = torch.maximum(jumps, torch.maximum(bend.abs(), rise.abs()))
    every = torch.stack(moved)
    in_float32 = (every == every.float().double()).all(0)
    found = torch.zeros_like(center)
    for kind in (in_float32, ~in_float32):
        known = jumps[kind & torch.isfinite(jumps)]
        if not known.numel():
            continue
        jump = float(known.median())
        if kind is in_float32 and bool((every[:, kind] != center[kind]).any()):
            jump = max(jump, torch.finfo(torch.float32).eps)  # even if no jump was found
        found[kind] = jump * float(center[kind].abs().max())
    return found


def flat(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors into one flat, real float64 vector.

    A complex number counts as two real numbers. The vector is on the GPU if any of the tensors is.
    """
    parts = [as_real(t.detach()).reshape(-1).double() for t in tensors]
    if not parts:
        return torch.zeros(0, dtype=torch.float64)
    device = next((part.device for part in parts if not part.is_cpu), parts[0].device)
    return torch.cat([part.to(device) for part in parts])


def as_real(tensor: Tensor) -> Tensor:
    """Return a complex tensor as pairs of real numbers, and a real tensor unchanged."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _columns(
    values: Values,
    inputs: Sequence[Any],
    position: int,
    center: Tensor,
    noise: Tensor,
    index: Tensor,
) -> JacobianColumns:
    real = _real(inputs[position])
    steps, typical = STEP * _scale(real), _typical(real)

    def moved(i: int, step: float) -> Tensor:
        def at(offset: float) -> Tensor:
            copies = copied(inputs)
            as_real(copies[position]).view(-1)[i] += offset
            return values(copies)

        return points(at, step)

    def examined(part: Tensor, steps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows = [moved(int(i), float(h)) for i, h in zip(part, steps, strict=True)]
        return derivatives(torch.stack(rows), steps, center, typical, noise)

    found = [examined(part, steps[part]) for part in index.split(AT_ONCE) if len(part)]
    if not found:
        nothing = torch.zeros(center.numel(), 0, dtype=torch.float64, device=center.device)
        return JacobianColumns(index, nothing, nothing, torch.zeros(0, dtype=torch.bool))
    value, error, smooth = map(torch.cat, zip(*found, strict=True))
    # A function of x - 1000 has no kink, but it can bend within one step of x = 1000.
    places = (~smooth).nonzero()[:, 0]
    for place in places.split(AT_ONCE) if len(places) else ():
        closer = steps[index[place]] / CLOSER
        columns, errors, is_smooth = examined(index[place], closer)
        clear = 4 * noise.max() / closer.to(noise.device) <= 1e-2 * columns.abs().amax(1)
        kept = is_smooth & clear.cpu()
        value[place[kept]], error[place[kept]] = columns[kept], errors[kept]
        smooth[place[kept]] = True
    return JacobianColumns(index, _turned(value), _turned(error), smooth)


def derivative(
    at: Callable[[float], Tensor], h: float, center: Tensor
) -> tuple[Tensor, Tensor, bool]:
    """Compute the derivative at offset 0.

    Return the derivative, its estimated error, and whether the function is smooth.
    """
    value, error, smooth = derivatives(
        points(at, h)[None], torch.tensor(h, dtype=torch.float64), center, 1.0
    )
    return value[0], error[0], bool(smooth)


def points(at: Callable[[float], Tensor], h: float) -> Tensor:
    """Return the four function values that determine a derivative at offset 0, one per row."""
    return torch.stack([at(h), at(-h), at(h / 2), at(-h / 2)])


def derivatives(
    points: Tensor, h: Tensor, center: Tensor, typical: float, noise: Tensor | float = 0.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Return each direction's derivative, its estimated error, and whether the function is smooth.

    ``points`` has shape (directions, 4, outputs). ``h`` holds one step for each direction, or one
    step for all of them. ``noise`` holds the size of the jumps in each output value.
    """
    above, below, near_above, near_below = points.unbind(1)
    h = h.to(points.device).reshape(-1, 1)
    wide, narrow = (above - below) / (2 * h), (near_above - near_below) / h
    value = (4 * narrow - wide) / 3
    size = center.abs().max().item() if center.numel() else 0.0
    rounding = 8 * torch.finfo(torch.float64).eps * size / h
    error = (value - narrow).abs() + rounding + 4 * noise / h
    # An output that never changes does not depend on the moved inputs. But if no output changes,
    # the changes may be too small for float32.
    unchanged = (points == center).all(1)
    coarse = unchanged.all(1, keepdim=True) & (center == center.float().double())
    error[unchanged & ~coarse] = 0.0
    # A nearby jump or kink changes the slope when the step is halved. If the change is small
    # relative to the function's usual slope, the error estimate accounts for it.
    slope = torch.maximum(wide.abs(), narrow.abs()).clamp_min(0.1 * size / (typical or 1.0))
    chance = 1e3 * rounding + 8 * noise / h
    moved = (wide - narrow).abs() > 1e-2 * slope + chance
    # A kink at the point itself does not change the slope, but its second difference does not
    # shrink with the step.
    bend, near_bend = (
        (above - 2 * center + below) / h,
        2 * (near_above - 2 * center + near_below) / h,
    )
    kinked = (near_bend.abs() > 0.75 * bend.abs()) & (
        near_bend.abs() > 1e-4 * narrow.abs() + chance
    )
    # An output that is nan at the point itself says nothing about the other outputs.
    smooth = (torch.isfinite(value) & ~moved & ~kinked | ~torch.isfinite(center)).all(1)
    return value, error, smooth.cpu()


def _turned(rows: Tensor) -> Tensor:
    """Transpose rows into a new tensor.

    A view would have a different memory layout, which affects the rounding of sums.
    """
    return rows.T.clone(memory_format=torch.contiguous_format)


def _real(tensor: Tensor) -> Tensor:
    return as_real(tensor).reshape(-1)


def _typical(real: Tensor) -> float:
    finite = real[real.isfinite()]  # a mask can contain -inf
    return float(finite.square().mean().sqrt()) if finite.numel() else 1.0


def _scale(real: Tensor) -> Tensor:
    """Return each element's scale: its magnitude, but at least 1/20 of the typical magnitude."""
    typical = _typical(real)
    return real.abs().nan_to_num(posinf=typical).clamp_min(0.05 * typical or 1.0)


def _signed(like: Tensor, rng: torch.Generator) -> Tensor:
    """Draw random factors from ±[½, 1] so that no factor is too small to reveal an error."""
    draw = 2 * torch.rand(like.shape, generator=rng, dtype=torch.float64) - 1
    return (0.5 * (draw + draw.sign())).to(like.device)


def moved_by(inputs: Sequence[Any], wanted: Sequence[int], offsets: Sequence[Tensor]) -> list[Any]:
    """Return copies of the inputs, with flat real offsets added to the wanted inputs."""
    copies = copied(inputs)
    for position, offset in zip(wanted, offsets, strict=True):
        as_real(copies[position]).view(-1).add_(offset)
    return copies


def copied(inputs: Sequence[Any]) -> list[Any]:
    """Copy each tensor argument, because ``forward`` may change it. The copies are contiguous."""
    return [
        value.detach().clone(memory_format=torch.contiguous_format)
        if isinstance(value, Tensor)
        else value
        for value in inputs
    ]

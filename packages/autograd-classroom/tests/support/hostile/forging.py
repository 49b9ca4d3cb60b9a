"""Submissions that write to the channel themselves. Frames count as answers and are checked.

A process can claim anything about itself. It may pass with right values that do not come from its
Function, but a remark reports this. If the submission makes the grader fail, a person sees this
failure, and a remark that the grader does not fail for a right answer.
"""

from autograd_course.grader.verdict import Status
from hostile.making import FORBIDDEN, Hostile, half

_CHANNEL = """
import json, os, socket, struct, time
def is_socket(fd):
    try: return os.fstat(fd).st_mode & 0o170000 == 0o140000
    except OSError: return False
channel = socket.socket(fileno=next(filter(is_socket, range(3, 256))))
channel.settimeout(None)
def send(said, payload=b'', lengths=None):
    header = said if isinstance(said, bytes) else json.dumps(said).encode()
    lengths = lengths or (len(header), len(payload))
    channel.sendall(struct.pack('!II', *lengths) + header + payload)
"""
_IMPOSTOR = """
from autograd_classroom.worker.handlers import Handlers
from autograd_classroom.worker.tamper_check import TamperCheck
from autograd_classroom.protocol import read, write, Frame
class Other(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return {forward}

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return {backward}
write(channel, Frame({{"submitted": "right"}}))
desk = Handlers("function", Other, TamperCheck(()), 5.0)
while isinstance(question := read(channel), Frame):
    write(channel, desk.answered(question))
"""
_BEGUN = "send({'submitted': 'right', 'takes': True})\n"
_RUNS = _BEGUN * 5  # the replies that the cells ran, and that forward takes each sample


def _sends(lines: str, said: str, wall: float = 8.0, status: Status = "wrong") -> Hostile:
    """Return a wrong Square that runs these lines, which send messages."""
    return Hostile(half(f"{_CHANNEL}\n{lines}"), said, "imports socket", status, wall=wall)


_HINDERS = "cannot examine this answer, although it can examine a right one"
_NO_TENSORS = "the answer holds no tensors"

FORGING = {
    "bytes everywhere": Hostile(
        "import os\nfor fd in range(3, 60):\n    try: os.write(fd, b'{\"passed\": true}' * 9)\n"
        "    except OSError: pass", "the answer is longer than 1 MiB", "reaches os",
    ),
    "a claim to have passed": _sends(f"{_RUNS}send({{'status': 'passed'}})", _NO_TENSORS),
    "a hundred frames more": _sends(f"for _ in range(100): {_BEGUN}", _NO_TENSORS),
    "a word of praise": _sends("send({'status': 'passed', 'problem': 'well done'})", "well done"),
    "half a frame": _sends(
        "send({}, lengths=(500, 0))\ntime.sleep(99)", "did not answer within 2 s", wall=2
    ),
    "a frame that begins askew": _sends("channel.sendall(b'\\0\\0\\0')", "the answer is no JSON"),
    "a header of 4 GB": _sends("send({}, lengths=(2**32 - 1, 0))", "longer than 1 MiB"),
    "a payload of 4 GB": _sends("send({}, lengths=(2, 2**32 - 1))", "longer than 64 MiB"),
    "64 MB of nothing": _sends(f"{_RUNS}send({{}}, bytes(64 << 20))", _NO_TENSORS),
    "no JSON": _sends("send(b'{]')", "the answer is no JSON"),
    "lists 900 levels deep": _sends(
        "send(b'{\"problem\":' + b'[' * 900 + b']' * 900 + b'}')", "the answer is nested too deep"
    ),
    "a finding of evidence 900 levels deep": _sends(
        f"{_BEGUN}deep = b'[' * 900 + b']' * 900\n"
        "send(b'{\"found\": {\"rule\": \"precision\", \"evidence\": {\"at\":' + deep + b'}}}')",
        "the answer is nested too deep",
    ),
    "a number of 100,000 digits": _sends(
        "send(b'{\"problem\":' + b'9' * 100000 + b'}')", "the answer is no JSON"
    ),
    "a pickle": _sends(
        f"import pickle\n{_RUNS}send({{}}, pickle.dumps(print))", _NO_TENSORS
    ),
    "text that cannot be stored": _sends(
        "send({'problem': '\\ud800\\x00\\x1b[2J'})", r"^\\ud800\\x00\\x1b\[2J$"
    ),
    "a failure of the grader": _sends(
        "send({'failed': 'no fault of mine'})", f"{_HINDERS}: no fault", status="grader failed"
    ),
    "a lack of the sandbox": _sends(
        "send({'lacking': 'ink', 'problem': 'no', 'raised': True})", f"{_HINDERS}: .*: ink",
        status="grader failed"
    ),
    "a doctor who cannot tell": _sends(
        f"{_BEGUN}send({{'unexamined': 'what it is'}})", f"{_HINDERS}: .*what it is",
        status="grader failed",
    ),
    "a loop in the grader": _sends(
        "send({'stopped': ''})", f"{_HINDERS}: grading took longer", status="grader failed"
    ),
    "answers about another exercise": _sends(
        _IMPOSTOR.format(forward="x * x * x", backward="3 * x * x * g"),
        "`forward` is wrong",
    ),
    "another's right answers": _sends(
        _IMPOSTOR.format(forward="x * x", backward="2 * x * g"), FORBIDDEN
    ),
}  # fmt: skip

"""A binary net on real digits

1. Start with an ordinary training loop: a torch.nn.Sequential, Adam, cross entropy, zero_grad,
   backward, step. Only the layers are unusual.
2. Two BinaryLinear layers with a nonlinearity between them are enough. A sum of 64 terms of ±1 is
   large, and weights of ±1 cannot make it smaller. Divide it by 8, the square root of 64, as the
   lesson does, or put a BatchNorm1d after each layer.
3. BinaryLinear(64, 64), BatchNorm1d(64), ReLU, BinaryLinear(64, 10), BatchNorm1d(10); Adam with a
   learning rate of 0.01; 100 steps on all images at once; return the net.
"""

from torch import Tensor

from autograd_course.digits import HELD_OUT
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.trials.digits import learns_binary_digits

ASKED = 0.90


def train_binary_net(images: Tensor, labels: Tensor) -> None:
    """Declare the answer's arguments. The trial checks the answer without a reference."""


EXERCISE = RoutineExercise(
    answer="train_binary_net",
    points=4,
    difficulty="medium",
    minutes=20,
    section="A net that cannot move",
    constraints=f"the net multiplies only by -1 and +1 and gets at least {ASKED:.0%} of "
    f"{HELD_OUT} held-out digits right",
    reference=train_binary_net,
    trials=(learns_binary_digits(ASKED),),
    seconds=30.0,
)

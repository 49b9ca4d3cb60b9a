"""Compile every kernel for GPUs that may be missing. Print how much shared memory each needs."""

import warnings

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from autograd_course.functions.attention import triton_kernels
from autograd_course.functions.attention.triton_attention import rows_of_block

NAMES = ("forward_kernel", "backward_keys_kernel", "backward_rows_kernel")
KINDS = ((75, "fp16", 2, 128), (80, "bf16", 2, 64), (75, "fp32", 4, 128))
ROWS = ("lse_ptr", "delta_ptr")
WORDS = ("row_words", "column_words")
FLOATS = ("scale", "kept")


def kind(name: str, dtype: str) -> str:
    if name in ROWS:
        return "*fp32"
    if name in WORDS:
        return "*i32"
    if name.endswith("_ptr") or name.startswith("to_"):
        return f"*{dtype}"
    if name.isupper():
        return "constexpr"
    return "fp32" if name in FLOATS else "i32"


warnings.simplefilter("ignore")  # triton 3.9 announces that a default will change
for name in NAMES:
    for capability, dtype, size, features in KINDS:
        block = rows_of_block(size * features, capability >= 80)
        kernel = getattr(triton_kernels, name)
        constants = {"ROWS": block, "KEYS": block, "WIDE": features, "DEEP": features}
        constants |= {"CAUSAL": True, "DROPOUT": True}
        source = ASTSource(
            kernel,
            {argument: kind(argument, dtype) for argument in kernel.arg_names},
            {(kernel.arg_names.index(key),): value for key, value in constants.items()},
        )
        target = GPUTarget("cuda", capability, 32)
        compiled = triton.compile(source, target=target, options={"num_stages": 1})
        print(f"{name}:{capability}:{dtype}", compiled.metadata.shared)

"""The names of the built-in convolutions, which the convolution exercises forbid."""

CONVOLUTIONS = (
    "conv1d",
    "conv2d",
    "conv_transpose1d",
    "conv_transpose2d",
    "convolution",
    "_convolution",
    "convolution_backward",
    "mkldnn_convolution",
    "conv_tbc",
    "conv_tbc_backward",
    "convolve",
    "correlate",
)

"""STE lab: a quantizer, the gradient that stands in for its derivative, and what trains by it."""

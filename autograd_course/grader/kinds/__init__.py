"""Grade answers. Each kind of exercise has its own module."""

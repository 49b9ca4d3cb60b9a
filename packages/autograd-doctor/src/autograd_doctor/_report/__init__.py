"""A diagnosis as text, in color and as HTML."""

"""A diagnosis as its reader sees it: text, plain or in color, and HTML."""

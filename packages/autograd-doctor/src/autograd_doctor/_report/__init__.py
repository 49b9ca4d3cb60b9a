"""Format a diagnosis as plain text, as colored text, and as HTML."""

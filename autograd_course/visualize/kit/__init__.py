"""What all visualizers share: the look, small pictures, the base of a widget, and its tools."""

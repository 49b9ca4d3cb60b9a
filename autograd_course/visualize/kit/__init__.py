"""Code that all visualizers share: styles, small pictures, a base class for widgets, and tools."""

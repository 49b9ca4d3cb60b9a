"""Code that all visualizers share: styles, small pictures, widget base classes, and tools."""

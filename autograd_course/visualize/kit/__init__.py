"""Code that all visualizers share: styles, small pictures, the base class of a widget, tools."""

"""A page for each error message that a custom Function can cause, with code that reproduces it.

The pages are Markdown files in this folder, one for each message. A TOML header between two ``+++``
lines gives the kind of exception or warning (``silent`` if there is no message), the wordings that
the page matches, and the lesson and rule that cover it. The last code block before "Repair"
reproduces the message. The code below "Repair" runs without an error or a warning.
"""

from autograd_course.messages.pages import MESSAGES, Match, contents, find, page

__all__ = ["MESSAGES", "Match", "contents", "find", "page"]

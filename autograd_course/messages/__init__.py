"""One page for each error message that a custom Function can cause, with code that reproduces it.

The pages are Markdown files in this folder, one for each message. Each page has a TOML header
between two ``+++`` lines. It contains the type of the exception or warning (``silent`` if there is
no message), the wordings of the message, and the lesson and the rule that cover it. The last code
block before "Repair" reproduces the message. The code below "Repair" runs without an error or a
warning.
"""

from autograd_course.messages.pages import MESSAGES, Match, contents, find, page

__all__ = ["MESSAGES", "Match", "contents", "find", "page"]

"""Pages about the error messages that custom Functions cause, with code that reproduces them.

The pages are Markdown files in this folder, one for each message. Each page has a TOML header
between two ``+++`` lines. The header contains the type of the exception or warning (``silent`` if
there is no message), the wordings of the message, and the lesson and the rule that cover the
message. The last code block before "Repair" reproduces the message. The code below "Repair" runs
without an error or a warning.
"""

from autograd_course.messages.pages import MESSAGES, Match, contents, find, page

__all__ = ["MESSAGES", "Match", "contents", "find", "page"]

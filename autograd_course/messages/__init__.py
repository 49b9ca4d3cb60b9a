"""A page for each message that a custom Function can end in, with the code that provokes it.

The pages are Markdown files beside this module, named for their message. A head of TOML between
``+++`` says what kind of exception or warning it is (``silent``: no message at all), which texts it
matches, and the rule and the lesson that belong to it. The last block of code before "Repair"
provokes the message; the code after it runs.
"""

from autograd_course.messages.finding import Match, find
from autograd_course.messages.pages import MESSAGES, book, contents, page

__all__ = ["MESSAGES", "Match", "book", "contents", "find", "page"]

"""``autograd-course check``: run ``diagnose`` from a shell."""

"""``autograd-course check``: what is typed at a shell becomes a call of ``diagnose``."""

"""The setting that defines where the course is published."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """The table ``[tool.autograd-course]`` in pyproject.toml: a GitHub repository and a branch."""

    repository: str
    branch: str

    def colab_url(self, notebook: str) -> str:
        """Return the address that opens ``notebook`` (a path in the repository) in Colab."""
        place = f"{self.repository}/blob/{self.branch}/{notebook}"
        return f"https://colab.research.google.com/github/{place}"

    @property
    def address(self) -> str:
        """The repository's address in the format that ``pip install`` expects."""
        return f"git+https://github.com/{self.repository}@{self.branch}"


def read_settings(root: Path) -> Settings:
    """Read the setting from ``root/pyproject.toml``.

    Raises KeyError if the table or a key is missing.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    table = project["tool"]["autograd-course"]
    return Settings(repository=table["repository"], branch=table["branch"])

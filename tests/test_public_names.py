"""What `import eigen_reptile` offers, and what it does not wait for."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import eigen_reptile


@pytest.mark.parametrize("name", eigen_reptile.__all__)
def test_every_public_name_exists(name: str) -> None:
    assert getattr(eigen_reptile, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = eigen_reptile.nothing


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(str(eigen_reptile.__file__)).read_text())
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    imported = {alias.asname for node in ast.walk(checked) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported == set(eigen_reptile.__all__)


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import eigen_reptile, sys; print('torch' in sys.modules, 'numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]

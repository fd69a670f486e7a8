"""The package of examples/plugin, installed into a folder of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.deployment import look_less_often

ROOT = Path(__file__).parents[2]
FOLDER = "OFCL_TEST_PLUGIN"  # names the folder in the environment


def install_plugin(folder):
    """Builds and installs the package; it lies in this folder then."""
    source = shutil.copytree(ROOT / "examples" / "plugin", folder / "source")  # it is built there
    install = ["pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", folder]
    subprocess.run([sys.executable, "-m", *install, source], check=True)
    return folder


def have_plugin():
    """Makes a process that was forked one in whose environment the package is installed."""
    sys.path.insert(0, os.environ[FOLDER])
    look_less_often()

"""Loaded by every Python that has this folder on its path: puts the faults in that the test asks for."""

import os

if os.environ.get("GPUBURN_FAULTS"):
    import gpuburn_faults  # noqa: F401

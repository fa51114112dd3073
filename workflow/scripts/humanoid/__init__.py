"""What the programs of the embedded workload share.

A simulated humanoid follows a reference motion under a balance policy. Nothing here imports
hloop: the programs are jobs like any other, and know only their arguments.
"""

import os

# Nothing is drawn. Otherwise each import of MuJoCo looks for a window system first.
os.environ["MUJOCO_GL"] = "disable"

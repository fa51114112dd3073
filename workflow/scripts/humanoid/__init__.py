"""What the programs of the embedded workload share.

A simulated humanoid follows a reference motion under a balance policy. Nothing here imports
hloop: the programs are jobs like any other, and know only their arguments.
"""

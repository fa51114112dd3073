"""What the tests of the command line share."""

from hloop_command import hloop

__all__ = ["hloop"]

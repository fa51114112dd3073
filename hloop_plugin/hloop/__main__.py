"""``python -m hloop`` is the ``hloop`` command."""

from hloop.cli.main import main

main()

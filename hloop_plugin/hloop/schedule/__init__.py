"""What starts when: a pure engine, the three modes, and bounds. No I/O, no clock."""

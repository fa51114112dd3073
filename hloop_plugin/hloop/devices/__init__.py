"""Which devices are visible, which physical ones they are, and how a job is told."""

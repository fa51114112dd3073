"""The plan: read, validated, identified, rendered; and workloads, which become plans."""

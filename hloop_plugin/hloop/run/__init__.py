"""One run: its supervisor, its attempts, its journal and its report."""

"""hloop runs a fixed plan of commands on one machine with several GPUs, through Snakemake."""

__version__ = "0.1.0"

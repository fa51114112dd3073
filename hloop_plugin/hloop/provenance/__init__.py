"""What the evidence of a run is made of, and who checks it."""

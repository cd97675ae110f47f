"""Tables and figures, made from records of runs."""

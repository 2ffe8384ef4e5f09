"""What is complete and good, and what may therefore start: data dependencies."""

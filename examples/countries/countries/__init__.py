"""The revenue of each product on a day, in euros: a workflow of three stages."""

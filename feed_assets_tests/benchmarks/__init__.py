"""Measurements, side by side with what else one would do: `make bench`.

Here: how fast the project is, and how many requests it takes. Not here: any limit that a test could fail by: what
takes how long depends on the machine, so goals are printed beside what was measured.
"""

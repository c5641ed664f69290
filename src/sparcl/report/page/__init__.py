"""The page about runs: one file with everything in it. Each section is a module."""

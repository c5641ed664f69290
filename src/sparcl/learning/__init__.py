"""Learning a stream of tasks: settings, the loop, run directories and checkpoints."""

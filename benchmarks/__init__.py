"""Every claim about speed, memory or accuracy as a command that measures it."""

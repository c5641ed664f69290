"""Sets of runs: the paper's tables and figures, and sweeps.

    file (TOML) ──► trials ──► run_trials ──► run directories ──► tables, figures
                                 ├─ local: processes of this machine
                                 └─ on_ray: tasks of a Ray cluster

A trial is one run. Its directory is named by the hash of its settings, so a trial that several tables need is run once,
and one that was broken off goes on from its checkpoint, whoever asks for it next.
"""

__all__: list[str] = []  # modules are imported by name, so that nothing is loaded that nobody asked for

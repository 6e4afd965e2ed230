"""Where a workload runs: capability protocols, power modes, and one adapter per kind of device."""

"""Devices that run workloads: capability protocols, power modes, and one adapter per kind of device."""

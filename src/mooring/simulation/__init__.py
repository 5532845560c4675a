"""Scheduling without a cluster: single decisions (`evaluate`) and whole workloads (`simulate`)."""

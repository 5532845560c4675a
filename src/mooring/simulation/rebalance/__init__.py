"""Rebalance: moves of pods that make room for pending pods and gangs, or that reduce fragmentation."""

from mooring.simulation.rebalance.planner import Goal, Limits, Move, Placement, Plan, Planner

__all__ = ["Goal", "Limits", "Move", "Placement", "Plan", "Planner"]

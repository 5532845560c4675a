"""Tests of the Helm chart that need no Helm."""

"""Templates for `mooring plugin new`."""

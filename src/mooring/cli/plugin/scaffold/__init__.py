"""What `mooring plugin new` writes: a plugin, its test and its configuration."""

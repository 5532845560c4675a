"""The admission webhook of the controller: its server, certificates, configurations and policies."""

"""What is wrong with an object, by kind, in Kubernetes' words."""

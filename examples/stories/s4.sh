#!/usr/bin/env bash
# A second scheduler that scores nodes by the sum of the bytes of their names, modulo 10. Of k8s-master01, k8s-node01 and
# k8s-node02 (2, 2 and 3) a pod with schedulerName namescore-scheduler must be bound to the last.
story=s4
. "$(dirname "$0")/common.sh"
plugin=examples/plugins/namescore/namescore.py
config=examples/stories/s4/scheduler.yaml

say "The plugin is one file, $plugin:"
sed 's/^/   | /' "$plugin"

say "Create the three nodes of the demo."
make_nodes k8s-master01 k8s-node01 k8s-node02

say "Grant the permissions that a command prints. The lease is the one in the configuration."
allow_scheduler namescore-scheduler --config "$config" --plugin "ScoreByNameLength=$plugin"
sed -n '/^kind: Role$/,/^---/s/^/   | /p' "$work/rbac.yaml"

say "Start the scheduler with the demo's configuration (v1beta3). Only the path of the kubeconfig is changed, which takes
   precedence over --kubeconfig, as in kube-scheduler."
sed "s#/etc/kubernetes/scheduler.kubeconfig#$work/scheduler.kubeconfig#" "$config" >"$work/scheduler.yaml"
start_scheduler mooring run --config "$work/scheduler.yaml" --secure-port 0 \
  --plugin "ScoreByNameLength=$plugin"

say "Create the pod."
apply examples/stories/s4/pod.yaml
made="$made examples/stories/s4/pod.yaml"
expect busybox-test-scheduler k8s-node02

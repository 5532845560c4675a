#!/usr/bin/env bash
# A second scheduler that scores nodes by their names: the node name's bytes added up, modulo 10. Of k8s-master01,
# k8s-node01 and k8s-node02 (2, 2 and 3) a pod with schedulerName namescore-scheduler must land on the last.
story=s4
. "$(dirname "$0")/common.sh"
plugin=examples/plugins/namescore/namescore.py
config=examples/stories/s4/scheduler.yaml

say "The plugin is one file, $plugin:"
sed 's/^/   | /' "$plugin"

say "The three nodes of the demo."
make_nodes k8s-master01 k8s-node01 k8s-node02

say "What the scheduler may do, printed by a command: the lease is the one that the configuration names."
allow_scheduler namescore-scheduler --config "$config" --plugin "ScoreByNameLength=$plugin"
sed -n '/^kind: Role$/,/^---/s/^/   | /p' "$work/rbac.yaml"

say "The scheduler, which has no other rights, from the shell, with the demo's own configuration (v1beta3). It names a kubeconfig, and as with
   kube-scheduler that counts, not --kubeconfig: the path is the one thing that is changed."
sed "s#/etc/kubernetes/scheduler.kubeconfig#$work/scheduler.kubeconfig#" "$config" >"$work/scheduler.yaml"
start_scheduler mooring run --config "$work/scheduler.yaml" --secure-port 0 \
  --plugin "ScoreByNameLength=$plugin"

say "The pod."
apply examples/stories/s4/pod.yaml
made="$made examples/stories/s4/pod.yaml"
expect busybox-test-scheduler k8s-node02

#!/usr/bin/env bash
# NodeCRDResourceFit: a plugin that filters and scores nodes by a custom resource, with the how-to's own configuration
# (v1beta2), objects and pod. Only nodes whose ClusterScopedResource enables company.net/memory may get the pod.
story=s3
. "$(dirname "$0")/common.sh"
folder=examples/plugins/node_crd_resource_fit
plugin=$folder/node_crd_resource_fit.py

say "The plugin is one file, $plugin, with the custom resource in it:"
sed 's/^/   | /' "$plugin"

say "Six nodes."
make_nodes s3-node-a s3-node-b s3-node-c s3-node-d s3-node-e s3-node-f

say "The definition of the custom resource, printed by a command."
printf '   $ mooring plugin manifests %s --crd\n' "$plugin"
mooring plugin manifests "$plugin" --crd >"$work/crd.yaml"
made="$work/crd.yaml $made"
apply "$work/crd.yaml"
await_api scheduling.sigs.k8s.io/v1alpha1

say "Objects for two of the nodes: the how-to's own, with the names filled in, and the kind that the definition has."
names=(s3-node-e s3-node-f)
for name in "${names[@]}"; do printf '%s\n' "$name"; done >"$work/names"
awk -v names="$work/names" '/REPLACE_ME_WITH_NODE_NAME/ {getline name <names; sub(/REPLACE_ME_WITH_NODE_NAME/, name)}
  {sub(/^kind: ClusterScopedResources$/, "kind: ClusterScopedResource"); print}' \
  examples/stories/s3/clusterscopedresources-cr.yaml >"$work/resources.yaml"
made="$work/resources.yaml $made"
apply "$work/resources.yaml"

say "What the scheduler may do, printed by a command; it may read the custom resource because the plugin declares it."
allow_scheduler secondary-scheduler --config $folder/scheduler.yaml --plugin "NodeCRDResourceFit=$plugin"
sed -n '/scheduling.sigs.k8s.io/,/watch/s/^/   | /p' "$work/rbac.yaml"

say "The scheduler, from the shell, with the how-to's own configuration, in which the kubeconfig's name is filled in."
sed "s|REPLACE_ME_WITH_KUBE_CONFIG_PATH|$work/scheduler.kubeconfig|" $folder/scheduler.yaml >"$work/scheduler-config.yaml"
start_scheduler mooring run --config "$work/scheduler-config.yaml" --plugin "NodeCRDResourceFit=$plugin" --secure-port 0 -v=5

say "The pod, the how-to's own: either node has 55 points."
made="$made $folder/pod.yaml"
apply $folder/pod.yaml
expect nginx s3-node-e s3-node-f

say "The log tells each step."
expect_told '"Add event for unscheduled pod" pod="default/nginx"'
expect_told '"About to try and schedule pod" pod="default/nginx"'
expect_told '"Attempting to schedule pod" pod="default/nginx"'
for name in a b c d; do
  expect_told "\"Node rejected\" .*node=\"s3-node-$name\" .*the node has no ClusterScopedResource"
done
for name in e f; do
  expect_told "\"Plugin scored node for pod\" .*plugin=\"NodeCRDResourceFit\" node=\"s3-node-$name\" score=55"
done
expect_told '"Attempting to bind pod to node" pod="default/nginx" node="s3-node-[ef]"'
expect_told '"Successfully bound pod to node" pod="default/nginx" node="s3-node-[ef]" evaluatedNodes=[0-9]+ feasibleNodes=2'
expect_told '"Delete event for unscheduled pod" pod="default/nginx"'
expect_told '"Add event for scheduled pod" pod="default/nginx"'

say "Another pod wants a resource that no node offers: it waits, and is told why."
sed -e 's/name: nginx$/name: nginx-gpu/' -e 's|company.net/memory|company.net/gpu|' $folder/pod.yaml >"$work/gpu.yaml"
made="$made $work/gpu.yaml"
apply "$work/gpu.yaml"
expect_waiting nginx-gpu "resource company.net/gpu is not enabled on the node"

say "s3-node-f is given that resource: the pod is tried again at once."
awk '{print} /^  name:/ {node = $2} /^  resourcesFilter:/ && node ~ /s3-node-f/ {print "    \"company.net/gpu\": true"}' \
  "$work/resources.yaml" >"$work/more.yaml"
apply "$work/more.yaml"
expect nginx-gpu s3-node-f

#!/usr/bin/env bash
# NodeCRDResourceFit: a plugin that filters and scores nodes by a custom resource, with the original how-to's configuration
# (v1beta2), objects and pod. Only nodes whose ClusterScopedResource enables company.net/memory are feasible.
story=s3
. "$(dirname "$0")/common.sh"
folder=examples/plugins/node_crd_resource_fit
plugin=$folder/node_crd_resource_fit.py

say "The plugin and its custom resource are one file, $plugin:"
sed 's/^/   | /' "$plugin"

say "Create six nodes."
make_nodes s3-node-a s3-node-b s3-node-c s3-node-d s3-node-e s3-node-f

say "Create the definition of the custom resource, which a command prints."
printf '   $ mooring plugin manifests %s --crd\n' "$plugin"
mooring plugin manifests "$plugin" --crd >"$work/crd.yaml"
made="$work/crd.yaml $made"
apply "$work/crd.yaml"
await_api scheduling.sigs.k8s.io/v1alpha1

say "Create the how-to's objects for two of the nodes, with the names filled in and the kind corrected."
names=(s3-node-e s3-node-f)
for name in "${names[@]}"; do printf '%s\n' "$name"; done >"$work/names"
awk -v names="$work/names" '/REPLACE_ME_WITH_NODE_NAME/ {getline name <names; sub(/REPLACE_ME_WITH_NODE_NAME/, name)}
  {sub(/^kind: ClusterScopedResources$/, "kind: ClusterScopedResource"); print}' \
  examples/stories/s3/clusterscopedresources-cr.yaml >"$work/resources.yaml"
made="$work/resources.yaml $made"
apply "$work/resources.yaml"

say "Grant the permissions that a command prints. They include the custom resource, because the plugin declares it."
allow_scheduler secondary-scheduler --config $folder/scheduler.yaml --plugin "NodeCRDResourceFit=$plugin"
sed -n '/scheduling.sigs.k8s.io/,/watch/s/^/   | /p' "$work/rbac.yaml"

say "Start the scheduler with the how-to's configuration, with the path of the kubeconfig filled in."
sed "s|REPLACE_ME_WITH_KUBE_CONFIG_PATH|$work/scheduler.kubeconfig|" $folder/scheduler.yaml >"$work/scheduler-config.yaml"
start_scheduler mooring run --config "$work/scheduler-config.yaml" --plugin "NodeCRDResourceFit=$plugin" --secure-port 0 -v=5

say "Create the how-to's pod. Both nodes have the score 55."
made="$made $folder/pod.yaml"
apply $folder/pod.yaml
expect nginx s3-node-e s3-node-f

say "The log contains each step."
expect_log '"Add event for unscheduled pod" pod="default/nginx"'
expect_log '"About to try and schedule pod" pod="default/nginx"'
expect_log '"Attempting to schedule pod" pod="default/nginx"'
for name in a b c d; do
  expect_log "\"Node rejected\" .*node=\"s3-node-$name\" .*the node has no ClusterScopedResource"
done
for name in e f; do
  expect_log "\"Plugin scored node for pod\" .*plugin=\"NodeCRDResourceFit\" node=\"s3-node-$name\" score=55"
done
expect_log '"Attempting to bind pod to node" pod="default/nginx" node="s3-node-[ef]"'
expect_log '"Successfully bound pod to node" pod="default/nginx" node="s3-node-[ef]" evaluatedNodes=[0-9]+ feasibleNodes=2'
expect_log '"Delete event for unscheduled pod" pod="default/nginx"'
expect_log '"Add event for scheduled pod" pod="default/nginx"'

say "A pod that requests a resource that no node offers stays pending, with the reason."
sed -e 's/name: nginx$/name: nginx-gpu/' -e 's|company.net/memory|company.net/gpu|' $folder/pod.yaml >"$work/gpu.yaml"
made="$made $work/gpu.yaml"
apply "$work/gpu.yaml"
expect_waiting nginx-gpu "resource company.net/gpu is not enabled on the node"

say "Add that resource to s3-node-f. The pod is retried at once."
awk '{print} /^  name:/ {node = $2} /^  resourcesFilter:/ && node ~ /s3-node-f/ {print "    \"company.net/gpu\": true"}' \
  "$work/resources.yaml" >"$work/more.yaml"
apply "$work/more.yaml"
expect nginx-gpu s3-node-f

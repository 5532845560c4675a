#!/usr/bin/env bash
# A second scheduler with two custom plugins: BlockAllScheduler, which rejects every pod, and NetworkAware, which reads
# measurements between nodes (a custom resource, NetworkMetrics) and places pods that communicate near each other.
# In Go this needed a fork of scheduler-plugins, two images and edits of a Helm chart. Here the files are passed to a chart
# that accepts the same values. Without helm (HELM= disables it), they are copied to a folder.
story=s1
. "$(dirname "$0")/common.sh"
helm="${HELM-helm}"
[ -z "$helm" ] || command -v "$helm" >/dev/null || helm=""
block_all=examples/plugins/block_all/block_all.py
network=examples/plugins/network_metrics/network_metrics.py
scheduler_name=scheduler-plugins-scheduler

# With the chart: the values of scheduler-plugins' chart, the files, and the rules that the plugin declares.

release() {
  run "$helm" "$1" scheduler-plugins charts/mooring --kubeconfig "$kubeconfig" -n kube-system \
    -f "$work/values.yaml" -f "$work/rules.yaml" \
    --set-file "pluginFiles.block_all\.py=$block_all" --set-file "pluginFiles.network_metrics\.py=$network" \
    --set crds.keep=false | sed 's/^/   | /'
}

at_end() {
  [ -z "${released:-}" ] ||
    "$helm" uninstall scheduler-plugins --kubeconfig "$kubeconfig" -n kube-system >/dev/null 2>&1 || true
}

start_with_chart() {
  say "The values are those of scheduler-plugins' chart, plus the two plugins:"
  cp examples/stories/s1/values.yaml "$work/values.yaml"
  sed -n '/^plugins:/,$s/^/   | /p' "$work/values.yaml"
  say "The scheduler's permissions. The plugin's declaration adds the permission to read networkmetrics."
  printf '   $ mooring plugin manifests %s --rbac -o values\n' "$network"
  mooring plugin manifests "$network" --rbac -o values >"$work/rules.yaml"
  sed 's/^/   | /' "$work/rules.yaml"
  say "Install the release. The nodes have no kubelets, so the script acts as the kubelet of the Deployment's pod."
  released=yes
  release install
  start_scheduler "$python" examples/stories/play.py --kubeconfig "$kubeconfig" -n kube-system "$scheduler_name" "$work/pod"
}

unblock_with_chart() {
  say "Remove BlockAllScheduler from the values, and upgrade the release."
  run sed -i '/- BlockAllScheduler/d' "$work/values.yaml"
  release upgrade
}

# Without the chart: the same with flags and a configuration.

start_with_flags() {
  say "Copy both plugins to a folder."
  mkdir "$work/plugins"
  run cp "$block_all" "$network" "$work/plugins"
  cp examples/stories/s1/scheduler.yaml "$work/scheduler.yaml"
  say "The scheduler's permissions. The plugin's declaration adds the permission to read networkmetrics."
  allow_scheduler "$scheduler_name" --config "$work/scheduler.yaml" --plugins-dir "$work/plugins"
  sed -n '/network.example.com/,/watch/s/^/   | /p' "$work/rbac.yaml"
  say "Start the scheduler. Its configuration enables both plugins and the built-in ones of scheduler-plugins:"
  sed -n '/^profiles/,$s/^/   | /p' "$work/scheduler.yaml"
  start_scheduler mooring run --config "$work/scheduler.yaml" --kubeconfig "$work/scheduler.kubeconfig" --secure-port 0 \
    --plugins-dir "$work/plugins"
}

unblock_with_flags() {
  say "Remove BlockAllScheduler from the configuration."
  run sed -i /BlockAllScheduler/d "$work/scheduler.yaml"
}

way="${helm:+chart}"
way="${way:-flags}"

say "The plugin that rejects every pod is one file, $block_all:"
sed 's/^/   | /' "$block_all"

say "Create three nodes. The third is far away from the others."
make_nodes s1-node-0 s1-node-1 s1-node-2

say "Create the definition of the custom resource, and an object with measurements."
printf '   $ mooring plugin manifests %s --crd\n' "$network"
mooring plugin manifests "$network" --crd >"$work/crd.yaml"
sed 's/node-/s1-node-/g' examples/plugins/network_metrics/metrics.yaml >"$work/metrics.yaml"
made="$work/metrics.yaml $work/crd.yaml $made"
apply "$work/crd.yaml"
await_api network.example.com/v1
apply "$work/metrics.yaml"

"start_with_$way"

say "A pod with the scheduler's name is rejected."
made="$made examples/stories/s1/server.yaml examples/stories/s1/client.yaml"
apply examples/stories/s1/server.yaml
expect_waiting s1-server "pod default/s1-server is blocked by BlockAllScheduler"
expect_log 'BlockAllScheduler is in effect.*maintenance'

"unblock_with_$way"
say "The pod is bound, without a restart."
expect s1-server s1-node-0
[ "$(grep -c '"Starting Mooring"' "$work/scheduler.log")" = 1 ]
kill -0 "$scheduler"

say "Create a pod of the same group. Its peer's node is full, so the pod is bound to the near node."
apply examples/stories/s1/client.yaml
expect s1-client s1-node-1

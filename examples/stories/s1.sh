#!/usr/bin/env bash
# A second scheduler with two plugins of one's own: BlockAllScheduler, which turns every pod down, and NetworkAware, which
# reads what was measured between nodes (a custom resource, NetworkMetrics) and keeps pods that talk to each other near.
# In Go it took a fork of scheduler-plugins, two images and edits of a Helm chart. Here the files are given to a chart that
# takes the same values; without helm (HELM= does without), they are dropped into a folder.
story=s1
. "$(dirname "$0")/common.sh"
helm="${HELM-helm}"
[ -z "$helm" ] || command -v "$helm" >/dev/null || helm=""
block_all=examples/plugins/block_all/block_all.py
network=examples/plugins/network_metrics/network_metrics.py
scheduler_name=scheduler-plugins-scheduler

# With the chart: the values of scheduler-plugins' chart, the files, and the rules that follow from the plugin.

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
  say "The values are those of scheduler-plugins' chart, but for the two plugins:"
  cp examples/stories/s1/values.yaml "$work/values.yaml"
  sed -n '/^plugins:/,$s/^/   | /p' "$work/values.yaml"
  say "What the scheduler may do: that it reads networkmetrics follows from the plugin's declaration."
  printf '   $ mooring plugin manifests %s --rbac -o values\n' "$network"
  mooring plugin manifests "$network" --rbac -o values >"$work/rules.yaml"
  sed 's/^/   | /' "$work/rules.yaml"
  say "The release. Nothing runs on the nodes here, so the script plays the kubelet for the Deployment's pod."
  released=yes
  release install
  start_scheduler "$python" examples/stories/play.py --kubeconfig "$kubeconfig" -n kube-system "$scheduler_name" "$work/pod"
}

unblock_with_chart() {
  say "BlockAllScheduler is taken out of the values, and the release is upgraded."
  run sed -i '/- BlockAllScheduler/d' "$work/values.yaml"
  release upgrade
}

# Without it: the same as flags and a configuration.

start_with_flags() {
  say "Both plugins go into a folder."
  mkdir "$work/plugins"
  run cp "$block_all" "$network" "$work/plugins"
  cp examples/stories/s1/scheduler.yaml "$work/scheduler.yaml"
  say "What the scheduler may do: that it reads networkmetrics follows from the plugin's declaration."
  allow_scheduler "$scheduler_name" --config "$work/scheduler.yaml" --plugins-dir "$work/plugins"
  sed -n '/network.example.com/,/watch/s/^/   | /p' "$work/rbac.yaml"
  say "The scheduler; its configuration enables both plugins, beside those of scheduler-plugins that are built in:"
  sed -n '/^profiles/,$s/^/   | /p' "$work/scheduler.yaml"
  start_scheduler mooring run --config "$work/scheduler.yaml" --kubeconfig "$work/scheduler.kubeconfig" --secure-port 0 \
    --plugins-dir "$work/plugins"
}

unblock_with_flags() {
  say "BlockAllScheduler is taken out of the configuration."
  run sed -i /BlockAllScheduler/d "$work/scheduler.yaml"
}

way="${helm:+chart}"
way="${way:-flags}"

say "The plugin that blocks everything is one file, $block_all:"
sed 's/^/   | /' "$block_all"

say "Three nodes; the third is far away from the others."
make_nodes s1-node-0 s1-node-1 s1-node-2

say "The definition of the custom resource, and an object with what was measured."
printf '   $ mooring plugin manifests %s --crd\n' "$network"
mooring plugin manifests "$network" --crd >"$work/crd.yaml"
sed 's/node-/s1-node-/g' examples/plugins/network_metrics/metrics.yaml >"$work/metrics.yaml"
made="$work/metrics.yaml $work/crd.yaml $made"
apply "$work/crd.yaml"
await_api network.example.com/v1
apply "$work/metrics.yaml"

"start_with_$way"

say "A pod with the scheduler's name is held back."
made="$made examples/stories/s1/server.yaml examples/stories/s1/client.yaml"
apply examples/stories/s1/server.yaml
expect_waiting s1-server "pod default/s1-server is blocked by BlockAllScheduler"
expect_told 'BlockAllScheduler is in force.*maintenance'

"unblock_with_$way"
say "Nothing is restarted, and the pod gets its node."
expect s1-server s1-node-0
[ "$(grep -c '"Starting Mooring"' "$work/scheduler.log")" = 1 ]
kill -0 "$scheduler"

say "A pod that talks to it: there is no room on the same node, so it goes to the near one, and not far away."
apply examples/stories/s1/client.yaml
expect s1-client s1-node-1

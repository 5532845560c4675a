#!/usr/bin/env bash
# A second scheduler with two plugins of one's own: BlockAllScheduler, which turns every pod down, and NetworkAware, which
# reads what was measured between nodes (a custom resource, NetworkMetrics) and keeps pods that talk to each other near.
# In Go it took a fork of scheduler-plugins, two images and edits of a Helm chart; here the files are dropped into a folder.
story=s1
. "$(dirname "$0")/common.sh"
block_all=examples/plugins/block_all/block_all.py
network=examples/plugins/network_metrics/network_metrics.py
config="$work/scheduler.yaml"
cp examples/stories/s1/scheduler.yaml "$config"

say "The plugin that blocks everything is one file, $block_all:"
sed 's/^/   | /' "$block_all"

say "Both plugins go into a folder."
mkdir "$work/plugins"
run cp "$block_all" "$network" "$work/plugins"

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

say "What the scheduler may do: that it reads networkmetrics follows from the plugin's declaration."
allow_scheduler scheduler-plugins-scheduler --config "$config" --plugins-dir "$work/plugins"
sed -n '/network.example.com/,/watch/s/^/   | /p' "$work/rbac.yaml"

say "The scheduler; its configuration enables both plugins, beside those of scheduler-plugins that are built in:"
sed -n '/^profiles/,$s/^/   | /p' "$config"
start_scheduler mooring run --config "$config" --kubeconfig "$work/scheduler.kubeconfig" --secure-port 0 \
  --plugins-dir "$work/plugins"

say "A pod with the scheduler's name is held back."
made="$made examples/stories/s1/server.yaml examples/stories/s1/client.yaml"
apply examples/stories/s1/server.yaml
expect_waiting s1-server "pod default/s1-server is blocked by BlockAllScheduler"
expect_told 'BlockAllScheduler is in force.*maintenance'

say "BlockAllScheduler is taken out of the configuration, and nothing is restarted: now the pod gets its node."
run sed -i /BlockAllScheduler/d "$config"
expect s1-server s1-node-0

say "A pod that talks to it: there is no room on the same node, so it goes to the near one, and not far away."
apply examples/stories/s1/client.yaml
expect s1-client s1-node-1

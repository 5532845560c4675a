#!/usr/bin/env bash
# A plugin from a file, without a build, in three ways (Kubernetes issue 106705): as a library, on the command line and
# in the configuration file. NodeNumber prefers the node whose name ends in the same digit as the pod's.
story=s2
. "$(dirname "$0")/common.sh"
plugin=examples/plugins/nodenumber/nodenumber.py

say "The plugin is one file, $plugin:"
sed 's/^/   | /' "$plugin"

say "Create three nodes and three pods with numbers."
make_nodes s2-node-1 s2-node-2 s2-node-3
made="$made examples/stories/s2/pods.yaml"

say "First way, the library: Scheduler(..., custom_plugin_files={\"NodeNumber\": \"nodenumber.py\"})"
start_scheduler "$python" examples/stories/s2/library.py --kubeconfig "$kubeconfig"
apply examples/stories/s2/pods.yaml
expect s2-library-1 s2-node-1
stop_scheduler

say "Second way, the command line: --plugin NodeNumber=$plugin"
start_scheduler mooring run --kubeconfig "$kubeconfig" --secure-port 0 \
  --config examples/stories/s2/command-line.yaml --plugin "NodeNumber=$plugin"
expect s2-command-line-2 s2-node-2
stop_scheduler

say "Third way, the configuration file: a second document names the file"
sed -n '/^---/,$s/^/   | /p' examples/stories/s2/configuration.yaml
start_scheduler mooring run --kubeconfig "$kubeconfig" --secure-port 0 \
  --config examples/stories/s2/configuration.yaml
expect s2-configuration-3 s2-node-3

say "All three pods are bound as the story says."

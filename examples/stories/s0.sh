#!/usr/bin/env bash
# Volcano with a custom plugin, without a build: gangs, queues and evictions with Volcano's configuration and command
# line. `magic` is a file in a folder; editing the configuration enables it.
story=s0
. "$(dirname "$0")/common.sh"
conf="$work/volcano-scheduler.conf" files=""

# Write the manifests of a gang whose pods need one slot each: gang NAME PODS MIN_MEMBER QUEUE [PRIORITY CLASS].
gang() {
  local name="$1" pods="$2" least="$3" queue="$4" class="${5:-}" number
  {
    printf 'apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: %s}\n' "$name"
    printf 'spec: {minMember: %s, queue: %s, priorityClassName: "%s"}\n' "$least" "$queue" "$class"
    for number in $(seq 0 $((pods - 1))); do
      cat <<POD
---
apiVersion: v1
kind: Pod
metadata: {name: $name-task-$number, labels: {gang: $name}, annotations: {scheduling.k8s.io/group-name: $name}}
spec:
  schedulerName: volcano
  priorityClassName: "$class"
  terminationGracePeriodSeconds: 0
  nodeSelector: {mooring.dev/story: s0}
  containers:
  - {name: app, image: nginx, resources: {limits: {story.mooring.dev/slot: "1"}}}
POD
    done
  } >"$work/$name.yaml"
  made="$work/$name.yaml $made"
  echo "   Gang $name: $pods pods, minMember $least, in queue $queue${class:+, $class}."
  files="$files -f $work/$name.yaml"
}

# Create the gangs.
submit() { "$python" scripts/kube.py apply --kubeconfig "$kubeconfig" $files >/dev/null; files=""; }

# Check the number of pods of each gang that have a node: expect_placed NAME=COUNT...
expect_placed() {
  local each
  if ! "$python" scripts/kube.py placed --kubeconfig "$kubeconfig" --timeout 90 --label gang "$@" >"$work/placed"; then
    echo "The scheduler's log:" >&2; tail -20 "$work/scheduler.log" >&2
    return 1
  fi
  for each in "$@"; do echo "   ${each#*=} pods of gang ${each%=*} have a node, as the story says."; done
}

# Mark the pods of a gang as running. The story's nodes have no kubelets, and reclaim evicts only running pods.
say_running() { "$python" scripts/kube.py running --kubeconfig "$kubeconfig" "gang=$1" >/dev/null; }

gone() { for name in "$@"; do cat "$work/$name.yaml"; echo ---; done >"$work/gone.yaml"; delete "$work/gone.yaml"; }

say "Install the definitions of queues and PodGroups, three nodes with four slots each, and queues with weights 1 and 3."
run mooring batch install --kubeconfig "$kubeconfig"
made="examples/stories/s0/cluster.yaml $made"
"$python" scripts/kube.py apply --kubeconfig "$kubeconfig" -f examples/stories/s0/cluster.yaml

say "Start the scheduler with Volcano's flags (only the addresses differ), and a configuration without magic."
sed 's/, {name: magic}//' examples/stories/s0/volcano-scheduler.conf >"$conf"
sed 's/^/   | /' "$conf"
start_scheduler mooring run --logtostderr --scheduler-conf="$conf" --enable-healthz=true --enable-metrics=true \
  --plugins-dir=examples/stories/s0/plugins -v=3 --healthz-address=127.0.0.1:0 --listen-address=127.0.0.1:0 \
  --secure-port=0 --kubeconfig="$kubeconfig"

say "A gang that fits is bound as a whole. A gang that does not fit is not bound at all, although some of it would fit."
gang s0-fits 8 8 s0-large
submit
expect_placed s0-fits=8
gang s0-huge 6 6 s0-large
submit
why="$("$python" scripts/kube.py waiting --kubeconfig "$kubeconfig" --timeout 90 s0-huge-task-5)"
echo "   $why"
expect_placed s0-fits=8 s0-huge=0
gone s0-fits s0-huge

say "Editing the file enables magic in the next session: pods are bound to the labelled node."
sed 's/^/   | /' examples/stories/s0/plugins/magic.py
cp examples/stories/s0/volcano-scheduler.conf "$conf"
for _ in $(seq 300); do
  ! grep -q "the configuration changed" "$work/scheduler.log" || break
  sleep 0.1
done
gang s0-magic 2 2 s0-large
submit
for number in 0 1; do expect "s0-magic-task-$number" s0-node-2; done
gone s0-magic

say "Two queues that request all slots share them by weight, 1 to 3, when the gang that holds them is deleted."
gang s0-first 12 12 s0-large
submit
expect_placed s0-first=12
gang s0-little 12 1 s0-small
gang s0-lot 12 1 s0-large
submit
gone s0-first
expect_placed s0-lot=9 s0-little=3
gone s0-little s0-lot

say "With the actions preempt and reclaim, an urgent job preempts pods of its queue."
sed -i 's/^actions:.*/actions: "enqueue, allocate, preempt, reclaim, backfill"/' "$conf"
gang s0-patient 12 1 s0-large
submit
expect_placed s0-patient=12
gang s0-hurried 4 4 s0-large s0-urgent
submit
expect_placed s0-hurried=4 s0-patient=8

say "Another queue reclaims its deserved share, a quarter."
say_running s0-patient
gang s0-back 3 3 s0-small
submit
expect_placed s0-back=3 s0-patient=5 s0-hurried=4

say "Gangs, queues, evictions and magic work as the story says."

#!/usr/bin/env bash
# Volcano with a custom plugin, and nothing to build: gangs, queues and evictions as Volcano has them, from its own
# configuration and with its own command line; `magic` is a file in a folder, and editing the configuration switches it on.
story=s0
. "$(dirname "$0")/common.sh"
conf="$work/volcano-scheduler.conf" files=""

# Write a gang of pods, one slot each, of which so many are needed: gang NAME PODS LEAST QUEUE [PRIORITY CLASS].
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
  echo "   Gang $name: $pods pods of which $least are needed, in queue $queue${class:+, $class}."
  files="$files -f $work/$name.yaml"
}

# Create the gangs that were written.
submit() { "$python" scripts/kube.py apply --kubeconfig "$kubeconfig" $files >/dev/null; files=""; }

# So many pods of gangs must get a node, and no more of them: expect_placed NAME=COUNT...
expect_placed() {
  local each
  if ! "$python" scripts/kube.py placed --kubeconfig "$kubeconfig" --timeout 90 --label gang "$@" >"$work/placed"; then
    echo "The scheduler said:" >&2; tail -20 "$work/scheduler.log" >&2
    return 1
  fi
  for each in "$@"; do echo "   ${each#*=} pods of gang ${each%=*} have a node, as the story says."; done
}

# Nothing runs on the story's nodes, so the story says itself that pods run: only those can be taken back.
say_running() { "$python" scripts/kube.py running --kubeconfig "$kubeconfig" "gang=$1" >/dev/null; }

gone() { for name in "$@"; do cat "$work/$name.yaml"; echo ---; done >"$work/gone.yaml"; delete "$work/gone.yaml"; }

say "The definitions of queues and groups, three nodes with four slots each, and two queues with weights 1 and 3."
run mooring batch install --kubeconfig "$kubeconfig"
made="examples/stories/s0/cluster.yaml $made"
"$python" scripts/kube.py apply --kubeconfig "$kubeconfig" -f examples/stories/s0/cluster.yaml

say "The scheduler with the flags that it always had (the addresses are ours), and the configuration without magic."
sed 's/, {name: magic}//' examples/stories/s0/volcano-scheduler.conf >"$conf"
sed 's/^/   | /' "$conf"
start_scheduler mooring run --logtostderr --scheduler-conf="$conf" --enable-healthz=true --enable-metrics=true \
  --plugins-dir=examples/stories/s0/plugins -v=3 --healthz-address=127.0.0.1:0 --listen-address=127.0.0.1:0 \
  --secure-port=0 --kubeconfig="$kubeconfig"

say "A gang that fits is bound whole; one that does not is not bound at all, although there is room for some of it."
gang s0-fits 8 8 s0-large
submit
expect_placed s0-fits=8
gang s0-huge 6 6 s0-large
submit
why="$("$python" scripts/kube.py waiting --kubeconfig "$kubeconfig" --timeout 90 s0-huge-task-5)"
echo "   $why"
expect_placed s0-fits=8 s0-huge=0
gone s0-fits s0-huge

say "Editing the file switches magic on, at the next session: pods go to the node that carries the label."
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

say "Two queues that want everything share by weight, 1 to 3, once somebody who has it all is gone."
gang s0-first 12 12 s0-large
submit
expect_placed s0-first=12
gang s0-little 12 1 s0-small
gang s0-lot 12 1 s0-large
submit
gone s0-first
expect_placed s0-lot=9 s0-little=3
gone s0-little s0-lot

say "With preempt and reclaim among the actions, an urgent job makes room for itself within its queue."
sed -i 's/^actions:.*/actions: "enqueue, allocate, preempt, reclaim, backfill"/' "$conf"
gang s0-patient 12 1 s0-large
submit
expect_placed s0-patient=12
gang s0-hurried 4 4 s0-large s0-urgent
submit
expect_placed s0-hurried=4 s0-patient=8

say "And another queue takes back what it deserves: a quarter."
say_running s0-patient
gang s0-back 3 3 s0-small
submit
expect_placed s0-back=3 s0-patient=5 s0-hurried=4

say "Gangs, queues, evictions and magic: all as the story says."

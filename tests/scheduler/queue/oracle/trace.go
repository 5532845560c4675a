package queue

// Overlaid into kube-scheduler's package: drives its queue by scenarios in JSON (a line each) and prints what it did.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	testingclock "k8s.io/utils/clock/testing"
)

type tracePod struct {
	Name, UID, Profile string
	Priority           int32
	Labels             map[string]string
	Hints              map[string]string
	Gates              int
	Tolerations        int
	CPU                string
	NodeName           string
}

type traceObj struct {
	Kind  string
	Name  string
	Hints map[string]string
	Pod   *tracePod
}

type traceEvent struct {
	Resource string
	Actions  int64
	Hint     string
}

type traceOp struct {
	Op       string
	At       float64
	Pod      *tracePod
	Old      *tracePod
	Nth      int
	Forget   bool
	Key      string
	Keys     []string
	Plugins  []string
	Pending  []string
	Resource string
	Action   int64
	OldObj   *traceObj
	NewObj   *traceObj
	MaxPrio  *int32
	Gated    []string
}

type traceScenario struct {
	ID                             string
	Initial, Max, MaxUnschedulable float64
	PopFromBackoff                 bool
	Start                          float64
	Gates                          map[string][]string
	Hints                          map[string]map[string][]traceEvent
	Ops                            []traceOp
}

func (t *tracePod) pod() *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: t.Name, Namespace: "ns", UID: types.UID(t.UID), Labels: t.Labels, Annotations: t.Hints}}
	p.Spec.SchedulerName = t.Profile
	prio := t.Priority
	p.Spec.Priority = &prio
	p.Spec.NodeName = t.NodeName
	for i := 0; i < t.Gates; i++ {
		p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, v1.PodSchedulingGate{Name: fmt.Sprint("g", i)})
	}
	for i := 0; i < t.Tolerations; i++ {
		p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: fmt.Sprint("t", i), Operator: v1.TolerationOpExists})
	}
	if t.CPU != "" {
		p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse(t.CPU)}}}}
	}
	return p
}

func (t *traceObj) obj() interface{} {
	if t == nil {
		return nil
	}
	if t.Pod != nil {
		return t.Pod.pod()
	}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: t.Name, Annotations: t.Hints}}
}

// traceHint says what the objects' annotation named after the plugin says of the pod.
func traceHint(plugin string) fwk.QueueingHintFn {
	return func(_ klog.Logger, pod *v1.Pod, oldObj, newObj interface{}) (fwk.QueueingHint, error) {
		for _, o := range []interface{}{oldObj, newObj} {
			m, ok := o.(metav1.Object)
			if !ok {
				continue
			}
			for _, name := range strings.Fields(m.GetAnnotations()[plugin]) {
				if name == "!" {
					return fwk.QueueSkip, errors.New("broken")
				}
				if name == pod.Name {
					return fwk.Queue, nil
				}
			}
		}
		return fwk.QueueSkip, nil
	}
}

type traceGate struct {
	name  string
	gated map[string]sets.Set[string]
}

func (g *traceGate) Name() string { return g.name }
func (g *traceGate) PreEnqueue(_ context.Context, p *v1.Pod) *fwk.Status {
	if g.gated[p.Name].Has(g.name) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "held back")
	}
	return nil
}

func traceResource(r string) fwk.EventResource {
	if r == "StorageClass" {
		return fwk.StorageClass
	}
	return fwk.EventResource(r)
}

func traceSeconds(t time.Time) interface{} {
	if t.IsZero() {
		return nil
	}
	return float64(t.UnixNano()) / 1e9
}

// RunTraces reads scenarios and writes the queue's state after every operation.
func RunTraces(in io.Reader, out io.Writer) {
	metrics.Register()
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 1<<20), 1<<28)
	w := bufio.NewWriter(out)
	defer w.Flush()
	for scanner.Scan() {
		var s traceScenario
		if err := json.Unmarshal(scanner.Bytes(), &s); err != nil {
			panic(err)
		}
		b, err := json.Marshal(runTrace(&s))
		if err != nil {
			panic(err)
		}
		w.Write(b)
		w.WriteByte('\n')
	}
}

func runTrace(s *traceScenario) map[string]interface{} {
	if err := utilfeature.DefaultMutableFeatureGate.Set(fmt.Sprintf("SchedulerPopFromBackoffQ=%v", s.PopFromBackoff)); err != nil {
		panic(err)
	}
	metrics.SchedulerQueueIncomingPods.Reset()
	secs := func(f float64) time.Duration { return time.Duration(f * 1e9) }
	at := func(f float64) time.Time { return time.Unix(0, 0).Add(secs(f)).UTC() }
	clk := testingclock.NewFakeClock(at(s.Start))
	gated := map[string]sets.Set[string]{}
	pre := map[string]map[string]fwk.PreEnqueuePlugin{}
	for profile, names := range s.Gates {
		pre[profile] = map[string]fwk.PreEnqueuePlugin{}
		for _, n := range names {
			pre[profile][n] = &traceGate{n, gated}
		}
	}
	hintMap := QueueingHintMapPerProfile{}
	for profile, plugins := range s.Hints {
		hintMap[profile] = QueueingHintMap{}
		for plugin, events := range plugins {
			for _, e := range events {
				ce := fwk.ClusterEvent{Resource: traceResource(e.Resource), ActionType: fwk.ActionType(e.Actions)}
				fn := traceHint(plugin)
				if e.Hint == "always" {
					fn = func(klog.Logger, *v1.Pod, interface{}, interface{}) (fwk.QueueingHint, error) { return fwk.Queue, nil }
				}
				hintMap[profile][ce] = append(hintMap[profile][ce], &QueueingHintFunction{PluginName: plugin, QueueingHintFn: fn})
			}
		}
	}
	less := (&queuesort.PrioritySort{}).Less
	factory := informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	logger := klog.NewKlogr()
	q := NewPriorityQueue(less, factory,
		WithClock(clk), WithPodInitialBackoffDuration(secs(s.Initial)), WithPodMaxBackoffDuration(secs(s.Max)),
		WithPodMaxInUnschedulablePodsDuration(secs(s.MaxUnschedulable)), WithPreEnqueuePluginMap(pre),
		WithQueueingHintMapPerProfile(hintMap), WithMetricsRecorder(metrics.NewMetricsAsyncRecorder(10, 20*time.Hour, ctx.Done())))
	q.activeQ.(*activeQueue).closed = true // Pop gives nothing rather than wait.
	popped := map[string]*framework.QueuedPodInfo{}
	latest := map[string]*v1.Pod{}
	gone := sets.New[string]()
	order := []string{}
	drop := func(uid string) {
		order = slices.DeleteFunc(order, func(u string) bool { return u == uid })
		delete(popped, uid)
	}
	nextFlush := at(s.Start).Add(30 * time.Second)
	steps := []interface{}{}
	for i := range s.Ops {
		op := &s.Ops[i]
		clk.SetTime(at(op.At))
		var result interface{}
		switch op.Op {
		case "gates":
			gated[op.Key] = sets.New(op.Gated...)
		case "add":
			q.Add(ctx, op.Pod.pod())
		case "update":
			n := op.Pod.pod()
			latest[op.Pod.UID] = n
			q.Update(ctx, op.Old.pod(), n)
		case "delete":
			gone.Insert(op.Pod.UID)
			q.Delete(op.Pod.pod())
		case "pop":
			p, err := q.Pop(logger)
			if err != nil {
				panic(err)
			}
			if p != nil {
				drop(string(p.Pod.UID))
				order = append(order, string(p.Pod.UID))
				popped[string(p.Pod.UID)] = p
				delete(latest, string(p.Pod.UID))
				gone.Delete(string(p.Pod.UID))
				result = p.Pod.Name
			}
		case "done":
			if len(order) == 0 {
				break
			}
			uid := order[op.Nth%len(order)]
			q.Done(types.UID(uid))
			if op.Forget {
				drop(uid)
			}
		case "fail":
			if len(order) == 0 {
				break
			}
			uid := order[op.Nth%len(order)]
			p := popped[uid]
			drop(uid)
			p.ClearRejectorPlugins()
			p.UnschedulablePlugins = sets.New(op.Plugins...)
			p.PendingPlugins = sets.New(op.Pending...)
			if gone.Has(uid) {
				q.Done(types.UID(uid))
				break
			}
			if n := latest[uid]; n != nil {
				_ = p.Update(n)
			}
			_ = q.AddUnschedulableIfNotPresent(logger, p, q.SchedulingCycle())
		case "activate":
			pods := map[string]*v1.Pod{}
			for _, t := range op.Keys {
				name, uid, _ := strings.Cut(t, "@")
				pods[name] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(uid)}}
			}
			q.Activate(logger, pods)
		case "event":
			var check PreEnqueueCheck
			if op.MaxPrio != nil {
				check = func(p *v1.Pod) bool { return *p.Spec.Priority <= *op.MaxPrio }
			}
			q.MoveAllToActiveOrBackoffQueue(logger, fwk.ClusterEvent{Resource: traceResource(op.Resource), ActionType: fwk.ActionType(op.Action)}, op.OldObj.obj(), op.NewObj.obj(), check)
		case "tick":
			q.flushBackoffQCompleted(logger)
			if !clk.Now().Before(nextFlush) {
				nextFlush = clk.Now().Add(30 * time.Second)
				q.flushUnschedulablePodsLeftover(logger)
			}
		default:
			panic(op.Op)
		}
		steps = append(steps, map[string]interface{}{"result": result, "state": q.traceState(), "inFlight": q.traceInFlight()})
	}
	return map[string]interface{}{"id": s.ID, "steps": steps, "incoming": traceIncoming()}
}

func (p *PriorityQueue) traceInFlight() []string {
	found := []string{}
	for uid := range p.activeQ.(*activeQueue).inFlightPods {
		found = append(found, string(uid))
	}
	sort.Strings(found)
	return found
}

func (p *PriorityQueue) traceState() map[string]interface{} {
	found := map[string]interface{}{}
	put := func(place string, i *framework.QueuedPodInfo) {
		if _, twice := found[i.Pod.Name]; twice {
			place = "TWICE"
		}
		var first interface{}
		if i.InitialAttemptTimestamp != nil {
			first = traceSeconds(*i.InitialAttemptTimestamp)
		}
		found[i.Pod.Name] = []interface{}{place, string(i.Pod.UID), i.Attempts, i.UnschedulableCount, i.ConsecutiveErrorsCount, traceSeconds(i.Timestamp),
			first, sets.List(i.UnschedulablePlugins), sets.List(i.PendingPlugins), i.GatingPlugin, i.WasFlushedFromUnschedulable,
			traceSeconds(i.FlushTimestamp), traceSeconds(p.backoffQ.(*backoffQueue).getBackoffTime(i)), len(i.Pod.Spec.Tolerations)}
	}
	for _, i := range p.activeQ.(*activeQueue).queue.List() {
		put("active", i)
	}
	for _, i := range p.backoffQ.(*backoffQueue).podBackoffQ.List() {
		put("backoff", i)
	}
	for _, i := range p.backoffQ.(*backoffQueue).podErrorBackoffQ.List() {
		put("backoff", i)
	}
	for _, i := range p.unschedulablePods.podInfoMap {
		if i.Gated() {
			put("gated", i)
		} else {
			put("unschedulable", i)
		}
	}
	return found
}

func traceIncoming() map[string]float64 {
	found := map[string]float64{}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		if f.GetName() != "scheduler_queue_incoming_pods_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			found[labels["queue"]+" "+labels["event"]] = m.GetCounter().GetValue()
		}
	}
	return found
}

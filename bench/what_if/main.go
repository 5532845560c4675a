// Asks kube-scheduler's framework which nodes are feasible for pods, as cluster-autoscaler does.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

func pod(name, cpu, node string) *v1.Pod {
	requests := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("1Gi")}
	made := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	made.Spec = v1.PodSpec{NodeName: node, SchedulerName: "default-scheduler", Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: requests}}}}
	return made
}

func main() {
	count, _ := strconv.Atoi(os.Args[1])
	questions, _ := strconv.Atoi(os.Args[2])
	var nodes []*v1.Node
	var pods []*v1.Pod
	for i := 0; i < count; i++ {
		name := fmt.Sprintf("node-%d", i)
		amounts := v1.ResourceList{v1.ResourceCPU: resource.MustParse("32"), v1.ResourceMemory: resource.MustParse("128Gi"), v1.ResourcePods: resource.MustParse("110")}
		labels := map[string]string{"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": fmt.Sprintf("zone-%d", i%3)}
		nodes = append(nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Status: v1.NodeStatus{Allocatable: amounts, Capacity: amounts}})
		for j := 0; j < 10; j++ {
			pods = append(pods, pod(fmt.Sprintf("web-%d-%d", i, j), fmt.Sprintf("%dm", 500+100*(i%20)), name))
		}
	}
	ctx := context.Background()
	metrics.Register()
	client, _ := kubernetes.NewForConfig(&rest.Config{Host: "127.0.0.1:1"})
	factory := informers.NewSharedInformerFactory(client, 0)
	snapshot := cache.NewSnapshot(pods, nodes)
	config, err := latest.Default()
	if err != nil {
		panic(err)
	}
	kept := config.Profiles[0].Plugins.MultiPoint.Enabled[:0]
	for _, each := range config.Profiles[0].Plugins.MultiPoint.Enabled {
		if each.Name != "DynamicResources" {
			kept = append(kept, each)
		}
	}
	config.Profiles[0].Plugins.MultiPoint.Enabled = kept
	fwk, err := runtime.NewFramework(ctx, plugins.NewInTreeRegistry(), &config.Profiles[0], runtime.WithClientSet(client), runtime.WithInformerFactory(factory), runtime.WithSnapshotSharedLister(snapshot))
	if err != nil {
		panic(err)
	}
	infos, _ := snapshot.NodeInfos().List()
	var answers []int
	started := time.Now()
	for q := 0; q < questions; q++ {
		cpu := fmt.Sprintf("%d", 1+q%32)
		if len(os.Args) > 3 { // all pods differ
			cpu = fmt.Sprintf("%dm", 1000+7*q)
		}
		asked := pod(fmt.Sprintf("ask-%d", q), cpu, "")
		state := framework.NewCycleState()
		feasible := 0
		_, status, _ := fwk.RunPreFilterPlugins(ctx, state, asked)
		if status.IsSuccess() {
			for _, info := range infos {
				if fwk.RunFilterPlugins(ctx, state, asked, info).IsSuccess() {
					feasible++
				}
			}
		}
		answers = append(answers, feasible)
	}
	fmt.Printf("%.1f questions/s\n", float64(questions)/time.Since(started).Seconds())
	fmt.Println(answers[:min(32, len(answers))])
}

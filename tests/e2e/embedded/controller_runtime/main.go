// A small operator on controller-runtime: it copies every ConfigMap with the label "copy" into a Secret that it owns.
// It runs the steps of a user against a cluster, prints the name of each step that succeeded, and exits.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "mooring.test/copy"

type copier struct{ client.Client }

func (c copier) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	source := &corev1.ConfigMap{}
	if err := c.Get(ctx, request.NamespacedName, source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if source.Labels["copy"] == "" {
		return ctrl.Result{}, nil
	}
	if source.DeletionTimestamp != nil {
		controllerutil.RemoveFinalizer(source, finalizer)
		return ctrl.Result{}, c.Update(ctx, source)
	}
	if controllerutil.AddFinalizer(source, finalizer) {
		return ctrl.Result{}, c.Update(ctx, source)
	}
	target := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: source.Name, Namespace: source.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, c.Client, target, func() error {
		target.StringData = source.Data
		return controllerutil.SetControllerReference(source, target, c.Scheme())
	})
	return ctrl.Result{}, err
}

func main() {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	ctx, cancel := context.WithTimeout(ctrl.SetupSignalHandler(), 60*time.Second)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		LeaderElection:          true,
		LeaderElectionID:        "copier.mooring.test",
		LeaderElectionNamespace: "default",
	})
	if err != nil {
		return fmt.Errorf("manager: %w", err)
	}
	byNode := func(each client.Object) []string { return []string{each.(*corev1.Pod).Spec.NodeName} }
	if err := manager.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, "spec.nodeName", byNode); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	builder := ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{})
	if err := builder.Complete(copier{manager.GetClient()}); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	failed := make(chan error, 1)
	go func() { failed <- manager.Start(ctx) }()
	select {
	case <-manager.Elected():
		fmt.Println("leader election")
	case err := <-failed:
		return fmt.Errorf("start: %w", err)
	}
	steps := []struct {
		name string
		run  func(context.Context, client.Client) error
	}{
		{"reconcile and owned objects", reconcileOwned},
		{"finalizers", finalizers},
		{"server-side apply", apply},
		{"status patch", statusPatch},
		{"custom resources", customResources},
		{"indexed list from the cache", indexedList},
		{"scale subresource", scale},
		{"optimistic locking", locking},
	}
	for _, step := range steps {
		if err := step.run(ctx, manager.GetClient()); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Println(step.name)
	}
	return nil
}

func until(ctx context.Context, check func() bool) error {
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 20*time.Second, true,
		func(context.Context) (bool, error) { return check(), nil })
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "default"}
}

func reconcileOwned(ctx context.Context, c client.Client) error {
	source := &corev1.ConfigMap{ObjectMeta: named("source"), Data: map[string]string{"a": "1"}}
	source.Labels = map[string]string{"copy": "yes"}
	if err := c.Create(ctx, source); err != nil {
		return err
	}
	secret := &corev1.Secret{}
	copied := func() bool {
		return c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "source"}, secret) == nil && string(secret.Data["a"]) == "1"
	}
	if err := until(ctx, copied); err != nil {
		return err
	}
	// An owned object that is deleted comes back.
	if err := c.Delete(ctx, secret); err != nil {
		return err
	}
	uid := secret.UID
	return until(ctx, func() bool { return copied() && secret.UID != uid })
}

func finalizers(ctx context.Context, c client.Client) error {
	source := &corev1.ConfigMap{ObjectMeta: named("source")}
	if err := c.Delete(ctx, source); err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: named("source")}
	gone := func(each client.Object) bool {
		return apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(each), each))
	}
	return until(ctx, func() bool { return gone(source) && gone(secret) })
}

func apply(ctx context.Context, c client.Client) error {
	wanted := corev1ac.ConfigMap("applied", "default").WithData(map[string]string{"x": "y"})
	if err := c.Apply(ctx, wanted, client.FieldOwner("copier"), client.ForceOwnership); err != nil {
		return err
	}
	found := &corev1.ConfigMap{ObjectMeta: named("applied")}
	return until(ctx, func() bool {
		return c.Get(ctx, client.ObjectKeyFromObject(found), found) == nil && found.Data["x"] == "y"
	})
}

func deployment() *appsv1.Deployment {
	labels := map[string]string{"app": "runtime"}
	one := int32(1)
	return &appsv1.Deployment{ObjectMeta: named("runtime"), Spec: appsv1.DeploymentSpec{
		Replicas: &one,
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{Name: "c", Image: "busybox"}}},
		},
	}}
}

func statusPatch(ctx context.Context, c client.Client) error {
	made := deployment()
	if err := c.Create(ctx, made); err != nil {
		return err
	}
	if err := until(ctx, func() bool {
		return c.Get(ctx, client.ObjectKeyFromObject(made), made) == nil && made.Status.AvailableReplicas == 1
	}); err != nil {
		return err
	}
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace("default"), client.MatchingLabels{"app": "runtime"}); err != nil {
		return err
	}
	if len(pods.Items) != 1 {
		return fmt.Errorf("there are %d pods", len(pods.Items))
	}
	pod := &pods.Items[0]
	before := client.MergeFrom(pod.DeepCopy())
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: "mooring.test/seen", Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
	return c.Status().Patch(ctx, pod, before)
}

func customResources(ctx context.Context, c client.Client) error {
	kind := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "boats.mooring.test"},
		"spec": map[string]any{
			"group": "mooring.test", "scope": "Namespaced",
			"names": map[string]any{"plural": "boats", "kind": "Boat"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
	definition.SetGroupVersionKind(kind)
	if err := c.Create(ctx, definition); err != nil {
		return err
	}
	boat := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"oars": int64(2)}}}
	boat.SetGroupVersionKind(schema.GroupVersionKind{Group: "mooring.test", Version: "v1", Kind: "Boat"})
	boat.SetName("dinghy")
	boat.SetNamespace("default")
	if err := c.Create(ctx, boat); err != nil {
		return err
	}
	if err := unstructured.SetNestedField(boat.Object, true, "status", "afloat"); err != nil {
		return err
	}
	if err := c.Status().Update(ctx, boat); err != nil {
		return err
	}
	return until(ctx, func() bool {
		if c.Get(ctx, client.ObjectKeyFromObject(boat), boat) != nil {
			return false
		}
		afloat, _, _ := unstructured.NestedBool(boat.Object, "status", "afloat")
		return afloat
	})
}

func indexedList(ctx context.Context, c client.Client) error {
	return until(ctx, func() bool {
		pods := &corev1.PodList{}
		return c.List(ctx, pods, client.MatchingFields{"spec.nodeName": "node-0"}) == nil && len(pods.Items) == 1
	})
}

func scale(ctx context.Context, c client.Client) error {
	made, size := deployment(), &autoscalingv1.Scale{}
	if err := c.SubResource("scale").Get(ctx, made, size); err != nil {
		return err
	}
	size.Spec.Replicas = 2
	if err := c.SubResource("scale").Update(ctx, made, client.WithSubResourceBody(size)); err != nil {
		return err
	}
	return until(ctx, func() bool {
		return c.Get(ctx, client.ObjectKeyFromObject(made), made) == nil && made.Status.AvailableReplicas == 2
	})
}

func locking(ctx context.Context, c client.Client) error {
	first := &corev1.ConfigMap{ObjectMeta: named("locked")}
	if err := c.Create(ctx, first); err != nil {
		return err
	}
	second := first.DeepCopy()
	first.Data = map[string]string{"a": "1"}
	if err := c.Update(ctx, first); err != nil {
		return err
	}
	second.Data = map[string]string{"a": "2"}
	if err := c.Update(ctx, second); !apierrors.IsConflict(err) {
		return fmt.Errorf("an update of an old version: %v", err)
	}
	return nil
}

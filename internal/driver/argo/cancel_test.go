package argo

import (
	"testing"

	"github.com/windlass-run/windlass/internal/cloud/kube"
)

// TestCancelsAtOnce: of two cancels one comes later, which must not raise the deadline
// that the other has set. It is no error that the API refuses that.
func TestCancelsAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("sleep 1000")))
	w.Running(p, h)
	pods, err := p.podsOf(t.Context(), "look", h)
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	before := &pods[0]
	lower := func(seconds int) {
		t.Helper()
		patch := map[string]any{"spec": map[string]any{"activeDeadlineSeconds": seconds}}
		if err := p.session.Patch(t.Context(), "lower", kube.Pods(p.session.Namespace, before.Name), patch, nil); err != nil {
			t.Fatal(err)
		}
	}
	lower(20)
	if err := p.shorten(t.Context(), before); err != nil {
		t.Errorf("behind another cancel: %v", err)
	}
	other := before.DeepCopy()
	other.UID = "another"
	if err := p.shorten(t.Context(), other); err == nil {
		t.Error("a refusal that concerns another pod passes")
	}
}

package kube

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/testwait"
)

// imageless is an engine that has no image.
type imageless struct{}

func (imageless) Start(context.Context, run.Spec) (run.Container, error) {
	return nil, &run.StartError{Phase: run.Pull, Text: "pull access denied"}
}
func (imageless) Close() error { return nil }

// TestPull: a pod whose image the engine can't pull waits, with the registry's words,
// until it is deleted.
func TestPull(t *testing.T) {
	s := New(Options{Executor: imageless{}})
	call := serveOn(t, s)
	if code, text := call(http.MethodPost, jobsPath, typeJSON, job()); code != 201 {
		t.Fatal(text)
	}
	testwait.Until(t, time.Minute, "words of the registry", func() bool {
		_, text := call(http.MethodGet, podsPath, "", "")
		return strings.Contains(text, `"waiting":{"reason":"ErrImagePull","message":"pull access denied"}`) && strings.Contains(text, `"phase":"Pending"`)
	})
	for _, pod := range s.Pods() {
		if code, text := call(http.MethodDelete, podsPath+"/"+pod, "", ""); code != 200 {
			t.Fatal(text)
		}
	}
	testwait.Until(t, time.Minute, "end of the pod", func() bool { return len(s.Pods()) == 0 })
}

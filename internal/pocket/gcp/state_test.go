package gcp

import (
	"os"
	"path/filepath"
	"testing"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/protobuf/proto"
)

// TestRestart keeps all that there is between two servers.
func TestRestart(t *testing.T) {
	folder := t.TempDir()
	first := newCloud(t, Options{State: folder})
	if _, err := first.Secrets().Put("s", []byte("v")); err != nil {
		t.Fatal(err)
	}
	made := first.create(t, "job", jobOf("sh", "-c", "echo hello; exit 3"))
	ended := first.ended(t, "job", nil)
	first.create(t, "long", jobOf("sleep", "60"))
	op, held := first.start(t, "long", nil)
	first.until(t, held.Name, "running task", func(e *runpb.Execution) bool { return e.RunningCount == 1 })
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(folder, "pocket-gcp.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the state's file: %v, %v", info, err)
	}

	second := newCloud(t, Options{State: folder})
	if e := second.execution(t, ended.Name); !proto.Equal(e, ended) {
		t.Errorf("the execution is %v, was %v", e, ended)
	}
	j, err := second.jobs.GetJob(t.Context(), &runpb.GetJobRequest{Name: made.Name})
	if err != nil || j.Uid != made.Uid || j.ExecutionCount != 1 {
		t.Errorf("the job is %v, %v", j, err)
	}
	if e := second.execution(t, held.Name); e.CancelledCount != 1 || e.CompletionTime == nil {
		t.Errorf("the execution that ran is %v", e)
	}
	if got, err := second.ops.GetOperation(t.Context(), &longrunningpb.GetOperationRequest{Name: op.Name}); err != nil || !got.Done || got.GetResponse() == nil {
		t.Errorf("its operation is %v, %v", got, err)
	}
	if got := second.output(t, ended, "stdout"); got != "hello\n" {
		t.Errorf("the output is %q", got)
	}
	if got, err := second.Secrets().Value("s", "latest"); err != nil || string(got) != "v" {
		t.Errorf("the secret is %q, %v", got, err)
	}
	second.ended(t, "job", nil)
	if _, err := New(Options{State: folder, Project: "another"}); err == nil {
		t.Error("another project took the state")
	}
}

// TestClosed uses a server that is closed.
func TestClosed(t *testing.T) {
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []Options{{Project: "X"}, {Number: "x"}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
	if _, err := s.Secrets().Value("none", "1"); err == nil {
		t.Error("a secret that isn't there was read")
	}
}

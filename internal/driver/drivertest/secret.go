package drivertest

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/sdk"
)

// Unseen fails the test where a value stands in the providers' log, or in a call
// but those whose names are permitted.
func (w *World[P]) Unseen(value string, permitted ...string) {
	w.T.Helper()
	if bytes.Contains(w.Logged(), []byte(value)) {
		w.T.Errorf("%s is in the log", value)
	}
	for _, c := range w.setup.Calls.Calls("") {
		if slices.Contains(permitted, c.Action) {
			continue
		}
		if bytes.Contains(c.Request, []byte(value)) || bytes.Contains(c.Reply, []byte(value)) {
			w.T.Errorf("%s is in a call of %s", value, c.Action)
		}
	}
}

// NotKept fails the test where a value stands in what is kept of a job for other
// processes.
func (w *World[P]) NotKept(value string, l sdk.Launch, h sdk.JobHandle) {
	w.T.Helper()
	for where, text := range w.kept(l, h) {
		if bytes.Contains(text, []byte(value)) {
			w.T.Errorf("%s is in the %s", value, where)
		}
	}
}

// kept is what the ledger has of a job.
func (w *World[P]) kept(l sdk.Launch, h sdk.JobHandle) map[string][]byte {
	w.T.Helper()
	launch, err := l.Encode()
	if err != nil {
		w.T.Fatal(err)
	}
	handle, err := h.Encode()
	if err != nil {
		w.T.Fatal(err)
	}
	return map[string][]byte{"launch": launch, "handle": handle}
}

// canaryLength is the least length of a credential that is sought: what is shorter
// stands elsewhere by chance.
const canaryLength = 16

// CredentialsStaySecret checks that over a job's life no credential is in a call's
// request or reply but those permitted, in what is kept for other processes, in an
// error or in the log. Fails is a call that a look at the job makes.
func (w *World[P]) CredentialsStaySecret(fails string, permitted ...string) {
	t := w.T
	t.Helper()
	dir := t.TempDir()
	p := w.Open(func(r *sdk.OpenRequest) { r.StateDir = dir })
	texts := map[string][]byte{}
	l := w.Plan(p, Shell("echo x; sleep 100"))
	h := w.Run(p, l)
	w.Running(p, h)
	if _, err := p.Check(t.Context(), sdk.CheckRequest{}); err != nil {
		t.Error(err)
	}
	w.Text(p, h, nil)
	if _, err := p.FindJobs(t.Context(), sdk.FindJobsRequest{Launch: &l, SentAt: time.Now()}); err != nil {
		t.Error(err)
	}
	for _, err := range p.ListOwned(t.Context(), sdk.ListOwnedRequest{Owner: w.Owner}) {
		if err != nil {
			t.Error(err)
		}
	}
	for name, e := range map[string]fault.Effect{"cut": {Reset: true}, "throttled": {Refuse: w.setup.Throttle}} {
		remove := w.setup.Faults.Add(fault.Rule{Action: fails, Effect: e})
		_, err := p.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h})
		remove()
		if err == nil {
			t.Fatalf("%s call of %s: no error", name, fails)
		}
		texts[name+" call's error"] = []byte(err.Error())
	}
	if _, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil {
		t.Error(err)
	}
	w.Ended(p, h)
	if _, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
		t.Error(err)
	}
	maps.Copy(texts, w.kept(l, h))
	maps.Copy(texts, w.files(dir))
	sought := 0
	for name, value := range w.setup.Credentials {
		if len(value) < canaryLength {
			continue
		}
		sought++
		w.Unseen(value, permitted...)
		for where, text := range texts {
			if bytes.Contains(text, []byte(value)) {
				t.Errorf("%s is in the %s", name, where)
			}
		}
	}
	if sought == 0 {
		t.Error("no credential of this world is long enough to be sought")
	}
}

// files reads all files of a folder.
func (w *World[P]) files(dir string) map[string][]byte {
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		out["file "+d.Name()], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		w.T.Fatal(err)
	}
	return out
}

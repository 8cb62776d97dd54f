//go:build linux || darwin

package local

import (
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/sdk"
)

func TestUser(t *testing.T) {
	testneed.Root(t)
	w := newWorld(t, "")
	for user, want := range map[string]string{
		"nobody":         "65534 65534 65534 /nonexistent nobody",
		"65534":          "65534 65534 65534 /nonexistent nobody",
		"54321:12345":    "54321 12345 12345 / 54321",
		"nobody:daemon":  "65534 1 1 /nonexistent nobody",
		"root":           "0 0 0 /root root",
		"daemon:nogroup": "1 65534 65534 /usr/sbin daemon",
	} {
		spec := sh(`echo $(id -u) $(id -g) $(id -G) $HOME $USER; echo reopened >/dev/stdout`)
		spec.User, spec.Workdir = user, "/"
		out := w.logs(w.run(spec), nil, true)
		if out.stdout.String() != want+"\nreopened\n" {
			t.Errorf("%s: got %q, %q, want %q", user, out.stdout.String(), out.stderr.String(), want)
		}
	}
}

// TestLimits: each limit is the kernel's.
func TestLimits(t *testing.T) {
	testneed.Root(t)
	testneed.Cgroup(t)
	w := newWorld(t, "")
	spec := sh(`cat /proc/self/cgroup; i=0; while [ $i -lt 40 ]; do sleep 5 & i=$((i+1)); done; echo made`)
	spec.PIDs = 10
	out := w.logs(w.run(spec), nil, true)
	if strings.Contains(out.stdout.String(), "made\n") || !strings.Contains(out.stderr.String(), "fork") {
		t.Errorf("40 processes under a limit of 10: %q, %q", out.stdout.String(), out.stderr.String())
	}
	spec = sh(`sleep 5 & sleep 5 & echo made; kill $!`)
	spec.PIDs = 3
	if out := w.logs(w.run(spec), nil, true); out.stdout.String() != "made\n" {
		t.Errorf("3 processes under a limit of 3: %q, %q", out.stdout.String(), out.stderr.String())
	}

	spec = sh(`x=$(head -c 200000000 /dev/zero | tr '\0' x); echo "${#x}"`)
	spec.Memory = 32 << 20
	res := w.ended(w.run(spec))
	if res.State != sdk.StateFailed || res.Reason != sdk.ReasonOOMKilled || !res.OOMObserved || res.Raw["oom_kills"] == "" {
		t.Errorf("200 MB in 32 MiB: %s, %s, %v", res.State, res.Reason, res.Raw)
	}
	// The kernel chooses whom it kills: the child is offered to it.
	spec = sh(`echo -1000 >/proc/self/oom_score_adj; sh -c 'echo 1000 >/proc/self/oom_score_adj; x=$(head -c 200000000 /dev/zero | tr "\0" x); echo "${#x}"'; exit 0`)
	spec.Memory = 32 << 20
	if res := w.ended(w.run(spec)); res.State != sdk.StateSucceeded || !res.OOMObserved {
		t.Errorf("a child that was killed for memory: %s, %t", res.State, res.OOMObserved)
	}

	spec = sh(`timeout 1 sh -c 'while :; do :; done'; cat /proc/self/cgroup >/dev/null; times`)
	spec.CPU = 100
	begun := time.Now()
	h := w.run(spec)
	res = w.ended(h)
	used, err := time.ParseDuration(res.Raw["user_time"])
	if err != nil {
		used = 0
	}
	if limit := time.Since(begun)/10 + 200*time.Millisecond; used > limit {
		t.Errorf("a tenth of a core was %s of %s", used, time.Since(begun))
	}
	for _, h := range []sdk.JobHandle{h} {
		w.cleanUp(h)
	}
}

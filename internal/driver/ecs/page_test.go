package ecs

import (
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/sdk"
)

// TestPage: the kind's page names every right that is needed, every state of a
// task and every reason that one may end with.
func TestPage(t *testing.T) {
	want := []string{statusProvisioning, statusPending, statusActivating, statusRunning, statusStopped, "iam:PassRole", "sts:GetCallerIdentity"}
	for _, c := range offline(t, nil).probes() {
		want = append(want, c.action)
	}
	for _, c := range endings {
		_, reason, _ := strings.Cut(c.want, " ")
		if reason != string(sdk.ReasonCancelled) {
			want = append(want, reason)
		}
	}
	drivertest.PageNames(t, Driver(), want...)
}

// FuzzReadGroup: what groupOf wrote comes back, and nothing else is taken for it.
func FuzzReadGroup(f *testing.F) {
	f.Add("windlass:01jgfjja00eayvsy0000000002:3")
	f.Add("family:x")
	f.Fuzz(func(t *testing.T, s string) {
		if id, n, ok := readGroup(s); ok {
			if gotID, gotN, ok := readGroup(groupOf(id, n)); !ok || gotID != id || gotN != n {
				t.Errorf("%q gives %s, %d, which doesn't come back", s, id, n)
			}
		}
	})
}

// FuzzJudge: no words of a backend's make an end that is illegal, or a success
// without a code.
func FuzzJudge(f *testing.F) {
	for _, c := range endings {
		n := int32(-1)
		if c.f.code != nil {
			n = *c.f.code
		}
		f.Add(c.f.stopCode, c.f.stopped, c.f.container, c.f.others, n, c.f.started)
	}
	f.Fuzz(func(t *testing.T, stopCode, stopped, container, others string, n int32, started bool) {
		in := facts{stopCode: stopCode, stopped: stopped, container: container, others: others, started: started}
		if n >= 0 {
			in.code = &n
		}
		e := judge(in)
		if !e.state.Terminal() || !sdk.LegalReason(e.state, e.reason) {
			t.Errorf("%+v: %s: %s", in, e.state, e.reason)
		}
		if e.state == sdk.StateSucceeded && (in.code == nil || *in.code != 0) {
			t.Errorf("%+v succeeded", in)
		}
	})
}

// FuzzFamily: any owner has legal families, and two owners none in common.
func FuzzFamily(f *testing.F) {
	f.Add("ann@laptop", "ann-laptop")
	f.Add("", "x")
	f.Fuzz(func(t *testing.T, a, b string) {
		hash := strings.Repeat("0", 32)
		x, y := family(a, hash), family(b, hash)
		if len(x) > maxFamily || strings.Trim(x, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			t.Errorf("%q has the family %q", a, x)
		}
		if a != b && x == y {
			t.Errorf("%q and %q have the family %s", a, b, x)
		}
	})
}

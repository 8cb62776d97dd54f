//go:build unix

package pluginhost_test

import (
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/pluginhost"
	"github.com/windlass-run/windlass/sdk"
)

// BenchmarkPlugin compares what ADR 0027 decides between: a private socket, and
// certificates besides.
func BenchmarkPlugin(b *testing.B) {
	if testing.Short() {
		b.Skip("starts processes: left out by -short")
	}
	for _, c := range []struct {
		name string
		mtls bool
	}{{"socket", false}, {"mtls", true}} {
		set := func(o *pluginhost.Options) { o.MTLS, o.Idle = c.mtls, time.Nanosecond }
		b.Run("start/"+c.name, func(b *testing.B) {
			y := newYard(b, "", set)
			req, err := y.plugins.Request("fake", nil)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				l, err := y.host.Process(b.Context(), req)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				l.Release() // one that nobody uses ends
				<-l.Done
				b.StartTimer()
			}
		})
		b.Run("call/"+c.name, func(b *testing.B) {
			y := newYard(b, "", set)
			p := y.open()
			h := y.run(p, "hang")
			runner := can(b, p, sdk.Runner())
			for b.Loop() {
				if _, err := runner.JobStatus(b.Context(), sdk.JobStatusRequest{Handle: h}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestMTLS: with certificates nobody but the host speaks to the plugin, whose socket is
// therefore not told.
func TestMTLS(t *testing.T) {
	y := newYard(t, "", func(o *pluginhost.Options) { o.MTLS = true })
	y.open()
	req, err := y.plugins.Request("fake", nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := y.host.Process(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	if l.Address != "" {
		t.Errorf("address %q", l.Address)
	}
	if err := pluginhost.Attach(t.Context(), "fake", &pluginhost.Lease{Address: l.Address}); err == nil {
		t.Error("somebody else connected")
	}
}

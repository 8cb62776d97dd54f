package argo

import (
	"errors"
	"fmt"
	"testing"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	pocket "github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/sdk"
)

// TestWeather: with every third call going wrong and streams cut, jobs end as in the
// calm, once, with their whole output, and nothing is left.
func TestWeather(t *testing.T) {
	ways(t, func(t *testing.T, w *world) {
		w.cluster.TuneKnobs(func(k *pocket.Knobs) { k.LogCut = 50 })
		for _, e := range []fault.Effect{{Drop: true}, {Reset: true}, {Refuse: &fault.Refusal{Status: 503, Code: "ServiceUnavailable", Message: "x"}}} {
			w.cluster.Faults().Add(fault.Rule{Share: 0.12, Effect: e})
		}
		p := w.Open()
		w.Secrets.Set("S", []byte("x"))
		drivertest.AtOnce(8, func(i int) {
			want := i % 3
			spec := shell(fmt.Sprintf("%s; echo one; echo two; exit %d", w.Mark(fmt.Sprint("job", i)), want))
			if p.server == nil {
				spec.Secrets = map[string]sdk.SecretRef{"S": "secret://env/S"}
			}
			l := w.Plan(p, spec)
			again := func(what string, f func() error) {
				w.Eventually(what, func() bool {
					err := f()
					if err != nil && !sdk.IsRetryable(err) && !errors.Is(err, sdk.FailedPrecondition) {
						t.Errorf("%s: %v", what, err)
					}
					return err == nil
				})
			}
			var h sdk.JobHandle
			again("launch", func() error {
				res, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l})
				h = res.Handle
				return err
			})
			var st sdk.JobStatusResult
			again("end", func() (err error) {
				if st, err = p.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); err == nil && !st.State.Terminal() {
					return &sdk.Error{Code: sdk.Unavailable, Retryable: true}
				}
				return err
			})
			if st.ExitCode == nil || *st.ExitCode != want || st.Launches != 1 {
				t.Errorf("job %d: %s, code %v, %d launches", i, st.State, st.ExitCode, st.Launches)
			}
			if job := w.own(p, h); job != "one\ntwo\n" {
				t.Errorf("job %d: the output is %q", i, job)
			}
			again("clean-up", func() error {
				_, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h})
				return err
			})
			if n := w.Marked(fmt.Sprint("job", i)); n != 1 {
				t.Errorf("job %d ran %d times", i, n)
			}
		})
		w.cluster.Faults().Clear()
		for o, err := range p.ListOwned(t.Context(), sdk.ListOwnedRequest{}) {
			t.Errorf("left: %+v, %v", o, err)
		}
		w.Eventually("end of the pods", func() bool { return len(w.cluster.Pods()) == 0 })
	})
}

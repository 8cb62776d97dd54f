package drivertest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/driver/cloudrun"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	pocket "github.com/windlass-run/windlass/internal/pocket/gcp"
	pocketrun "github.com/windlass-run/windlass/internal/pocket/gcp/cloudrun"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a test that only notes how it was failed.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Error(args ...any) { r.failures = append(r.failures, fmt.Sprint(args...)) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

// broken is a driver's provider with a mistake.
type broken struct {
	Provider
	open   sdk.OpenRequest
	run    func(ctx context.Context, b *broken, r sdk.RunJobRequest) (sdk.RunJobResult, error)
	cancel func(ctx context.Context, b *broken, r sdk.CancelJobRequest) (sdk.CancelJobResult, error)
	check  func(ctx context.Context, b *broken, r sdk.CheckRequest) (sdk.CheckResult, error)
}

func (b *broken) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	if b.run != nil {
		return b.run(ctx, b, r)
	}
	return b.Provider.RunJob(ctx, r)
}

func (b *broken) CancelJob(ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	if b.cancel != nil {
		return b.cancel(ctx, b, r)
	}
	return b.Provider.CancelJob(ctx, r)
}

func (b *broken) Check(ctx context.Context, r sdk.CheckRequest) (sdk.CheckResult, error) {
	if b.check != nil {
		return b.check(ctx, b, r)
	}
	return b.Provider.Check(ctx, r)
}

// newBroken is a world on a pocket cloud whose providers all make a mistake.
func newBroken(t *testing.T, tb testing.TB, mistake broken) (*World[*broken], *pocket.Server) {
	cloud, err := pocket.New(pocket.Options{Record: true})
	if err != nil {
		t.Fatal(err)
	}
	return New[*broken](tb, Setup{
		Driver: func() sdk.Driver {
			d := cloudrun.Driver()
			inner := d.Open
			d.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
				p, err := inner(ctx, r)
				if err != nil {
					return nil, err
				}
				b := mistake
				b.Provider, b.open = p.(Provider), r
				return &b, nil
			}
			return d
		},
		Config: map[string]any{"project": pocket.Project, "region": pocket.Location, "endpoint": "http://" + Listen(t, cloud), "log_quiet": "50ms", "visible_within": "2s",
			"read_rate": 100000, "write_rate": 100000, "log_rate": 100000, "gone": "x"},
		Change:      map[string]any{"gone": nil},
		Credentials: map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": "canary-token-5b1f0c7e9a"},
		Faults:      cloud.Faults(),
		Calls:       cloud.Calls(),
		Throttle:    pocket.Throttle(),
	}), cloud
}

// again sends a launch once more by itself.
func again(ctx context.Context, b *broken, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	res, err := b.Provider.RunJob(ctx, r)
	if err != nil {
		res, err = b.Provider.RunJob(ctx, r)
	}
	return res, err
}

// sure takes each failure of a launch for a refusal.
func sure(ctx context.Context, b *broken, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	res, err := b.Provider.RunJob(ctx, r)
	if err != nil {
		err = sdk.Errorf(sdk.FailedPrecondition, "run job", "refused: %v", err)
	}
	return res, err
}

// another runs a job of another launch where the job is there.
func another(ctx context.Context, b *broken, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	res, err := b.Provider.RunJob(ctx, r)
	if err != nil || !res.Adopted {
		return res, err
	}
	ids := sdk.NewIDSource(sdk.SystemClock())
	l, err := b.PrepareJob(ctx, sdk.PrepareJobRequest{Spec: Shell("true"), RunID: ids.NewID(), AttemptID: ids.NewID(), Attempt: 1})
	if err != nil {
		return sdk.RunJobResult{}, err
	}
	return b.Provider.RunJob(ctx, sdk.RunJobRequest{Launch: l})
}

// deaf goes on whatever became of its context.
func deaf(ctx context.Context, b *broken, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	return b.Provider.CancelJob(context.WithoutCancel(ctx), r)
}

// blind finds nothing wrong.
func blind(ctx context.Context, b *broken, r sdk.CheckRequest) (sdk.CheckResult, error) {
	res, err := b.Provider.Check(ctx, r)
	for i := range res.Items {
		res.Items[i].OK = true
	}
	return res, err
}

// chatty tells its credentials, in one way or another.
func chatty(tell func(b *broken, token string) error) func(ctx context.Context, b *broken, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	return func(ctx context.Context, b *broken, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
		if err := tell(b, b.open.Credentials["GOOGLE_OAUTH_ACCESS_TOKEN"]); err != nil {
			return sdk.CancelJobResult{}, err
		}
		return b.Provider.CancelJob(ctx, r)
	}
}

// TestChecks: each check passes for a driver that is right, and fails for one that
// makes the mistake that it is for.
func TestChecks(t *testing.T) {
	launch, cancel := Mutation{Action: "run:CreateJob", Op: providertest.OpRunJob}, Mutation{Action: "run:CancelExecution", Op: providertest.OpCancelJob}
	cleanup := Mutation{Action: "run:DeleteJob", Op: providertest.OpCleanupJob}
	type checked = func(w *World[*broken], cloud *pocket.Server)
	sends := func(w *World[*broken], _ *pocket.Server) {
		w.sendsOnce([]Mutation{launch, cancel, cleanup}, fault.Effect{Drop: true})
	}
	refused := func(w *World[*broken], _ *pocket.Server) {
		w.sendsOnce([]Mutation{launch, cancel, cleanup}, fault.Effect{Refuse: pocket.Unavailable()})
	}
	lost := func(w *World[*broken], _ *pocket.Server) { w.outlivesLostReply(launch) }
	ends := func(w *World[*broken], _ *pocket.Server) { w.endsWithItsContext(cancel, 200*time.Millisecond) }
	one := func(w *World[*broken], _ *pocket.Server) { w.OneJobPerLaunch("run:CreateJob") }
	room := func(w *World[*broken], cloud *pocket.Server) {
		w.WaitsForRoom(w.Open(), func() func() {
			cloud.Run().TuneKnobs(func(k *pocketrun.Knobs) { k.MaxJobs = 1 })
			w.Run(w.Open().plain(), w.Plan(w.Open(), Shell("true")))
			return func() { cloud.Run().TuneKnobs(func(k *pocketrun.Knobs) { k.MaxJobs = 2 }) }
		}, sdk.ReasonQuota, "reap")
	}
	rights := func(w *World[*broken], cloud *pocket.Server) {
		w.NamesMissingRights(w.Open(), []string{"run.jobs.create"}, func(right string) func() {
			cloud.Policy().Deny(right)
			return func() { cloud.Policy().Deny() }
		})
	}
	secret := func(w *World[*broken], _ *pocket.Server) { w.CredentialsStaySecret("run:GetExecution") }
	short := func(w *World[*broken]) {
		w.setup.Credentials = map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": "short"}
	}
	for name, k := range map[string]struct {
		check   checked
		mistake broken
		// want is a word of the failure; empty is none.
		want string
	}{
		"sends once":            {sends, broken{}, ""},
		"sends again":           {sends, broken{run: again}, "went out 2 times"},
		"sends refused once":    {refused, broken{}, ""},
		"sends refused again":   {refused, broken{run: again}, "went out 2 times"},
		"knows too much":        {sends, broken{run: sure}, "clear: true"},
		"outlives":              {lost, broken{}, ""},
		"outlives by itself":    {lost, broken{run: again}, "got <nil>"},
		"outlives without":      {lost, broken{run: sure}, "clear: true"},
		"ends":                  {ends, broken{}, ""},
		"never ends":            {ends, broken{cancel: deaf}, "still no end of the operation"},
		"one job":               {one, broken{}, ""},
		"two jobs":              {one, broken{run: another}, "the jobs are"},
		"room":                  {room, broken{}, ""},
		"gives up":              {room, broken{run: sure}, "want ResourceExhausted"},
		"rights":                {rights, broken{}, ""},
		"blind":                 {rights, broken{check: blind}, "without run.jobs.create: []"},
		"secret":                {secret, broken{}, ""},
		"told in the log":       {secret, broken{cancel: chatty(logIt)}, "is in the log"},
		"told in a call":        {secret, broken{cancel: chatty(sendIt)}, "is in a call of run:CreateJob"},
		"told in a file":        {secret, broken{cancel: chatty(writeIt)}, "is in the file seen"},
		"credentials are short": {func(w *World[*broken], c *pocket.Server) { short(w); secret(w, c) }, broken{}, "long enough"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				w, cloud := newBroken(t, r, k.mistake)
				k.check(w, cloud)
			}()
			<-done
			got := strings.Join(r.failures, "\n")
			if k.want == "" && got != "" || !strings.Contains(got, k.want) {
				t.Errorf("failed with %q, want %q", got, k.want)
			}
		})
	}
}

// plain is the provider without its mistake.
func (b *broken) plain() *broken { return &broken{Provider: b.Provider} }

func logIt(b *broken, token string) error {
	b.open.Log.Log(context.Background(), slog.LevelDebug, token)
	return nil
}

func sendIt(b *broken, token string) error {
	ids := sdk.NewIDSource(sdk.SystemClock())
	l, err := b.PrepareJob(context.Background(), sdk.PrepareJobRequest{Spec: Shell(": " + token), RunID: ids.NewID(), AttemptID: ids.NewID(), Attempt: 1})
	if err != nil {
		return err
	}
	_, err = b.Provider.RunJob(context.Background(), sdk.RunJobRequest{Launch: l})
	return err
}

func writeIt(b *broken, token string) error {
	return os.WriteFile(filepath.Join(b.open.StateDir, "seen"), []byte(token), 0o600)
}

// TestHooks: what the suite asks of a world hits the calls that the hooks name.
func TestHooks(t *testing.T) {
	r := &recorder{TB: t}
	w, cloud := newBroken(t, r, broken{})
	var hid []time.Duration
	f := w.Harness(Hooks{
		Action: func(op providertest.Op) string {
			return map[providertest.Op]string{providertest.OpRunJob: "run:CreateJob"}[op]
		},
		Hide: func(d time.Duration) { hid = append(hid, d) },
	}).Faults
	if _, _, ok := f.Block(nil, providertest.OpCheck); ok {
		t.Error("blocks an operation that makes no call")
	}
	f.Hide(nil)()
	if len(hid) != 2 || hid[0] <= 0 || hid[1] != 0 {
		t.Errorf("hid for %v", hid)
	}
	f.Throttle(suiteT{TB: t}, providertest.OpRunJob, 2)
	p := w.Open()
	for range 2 {
		if _, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: w.Plan(p, Shell("true"))}); sdk.CodeOf(err) != sdk.ResourceExhausted {
			t.Errorf("throttled: %v", err)
		}
	}
	f.Forge(suiteT{TB: t}, "somebody")
	others := 0
	for o, err := range p.ListOwned(t.Context(), sdk.ListOwnedRequest{Owner: "somebody"}) {
		if err != nil || o.LedgerID != w.Ledger {
			t.Errorf("forged %+v, %v", o, err)
		}
		others++
	}
	if others != 1 || cloud.Calls().Count("run:CreateJob") != 3 {
		t.Errorf("%d forged objects, %d calls", others, cloud.Calls().Count("run:CreateJob"))
	}
	if len(r.failures) > 0 {
		t.Error(r.failures)
	}
}

// suiteT is the suite's form of a test, without subtests.
type suiteT struct{ testing.TB }

func (suiteT) Run(string, func(providertest.T)) bool { return false }

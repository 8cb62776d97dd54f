package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Options make a Cloud.
type Options struct {
	// Name tells clouds apart: it is the account of their identity. Empty is
	// "fake".
	Name string
	// Clock is the cloud's time; nil is the machine's.
	Clock sdk.Clock
	// Knobs are the first knobs.
	Knobs Knobs
	// Record keeps the body of every request, for Bodies.
	Record bool
}

// Cloud is the server side. It is safe for concurrent use.
type Cloud struct {
	name   string
	where  string
	clock  sdk.Clock
	store  store
	record bool
	knobs  atomic.Pointer[Knobs]

	mu     sync.Mutex
	faults []*armed
	// hasFaults spares the lock where there are none.
	hasFaults atomic.Bool
	serial    int
	window    time.Time
	flickers  atomic.Int64
	inWindow  int

	hub hub
	// liveHub tells of changes of workloads, by path.
	liveHub hub
}

// armed is a fault with what is left of it.
type armed struct {
	Fault
	id      int
	left    int64
	entered chan struct{}
	release chan struct{}
}

// Body is a recorded request.
type Body struct {
	Op   Op              `json:"op"`
	Body json.RawMessage `json:"body"`
}

// NewCloud returns a cloud in memory.
func NewCloud(o Options) *Cloud {
	o.Clock = orSystem(o.Clock)
	return newCloud(o, newMemory(o.Clock), "memory")
}

// OpenCloud returns the cloud of a folder, which it makes if need be. All
// processes that open the folder see the same jobs.
func OpenCloud(dir string, o Options) (*Cloud, error) {
	o.Clock = orSystem(o.Clock)
	st, err := newFolder(dir, o.Clock)
	if err != nil {
		return nil, err
	}
	return newCloud(o, st, dir), nil
}

func orSystem(c sdk.Clock) sdk.Clock {
	if c == nil {
		return sdk.SystemClock()
	}
	return c
}

func newCloud(o Options, st store, where string) *Cloud {
	c := &Cloud{name: o.Name, where: where, clock: o.Clock, store: st, record: o.Record}
	if c.name == "" {
		c.name = "fake"
	}
	c.Set(o.Knobs)
	return c
}

// Set replaces all knobs. Faults that were set before and have not hit are
// dropped.
func (c *Cloud) Set(k Knobs) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.knobs.Store(&k)
	c.faults = nil
	for i, f := range k.Faults {
		c.arm(f, i)
	}
	c.hasFaults.Store(len(c.faults) > 0)
}

// Change changes knobs. Faults stay as they are; Inject adds some.
func (c *Cloud) Change(f func(k *Knobs)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := *c.knobs.Load()
	f(&k)
	c.knobs.Store(&k)
}

// Knobs returns the knobs.
func (c *Cloud) Knobs() Knobs { return *c.knobs.Load() }

// Inject adds a fault. Its Nth counts from the cloud's first call.
func (c *Cloud) Inject(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	c.arm(f, 1000+c.serial)
	c.hasFaults.Store(true)
}

func (c *Cloud) arm(f Fault, id int) *armed {
	a := &armed{Fault: f, id: id, left: f.Times}
	if a.left == 0 {
		a.left = 1
	}
	c.faults = append(c.faults, a)
	return a
}

// Block lets calls of op hang from now on until release is called or the
// caller gives up. entered gets a value for each, as far as its buffer goes.
func (c *Cloud) Block(op Op) (entered <-chan struct{}, release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	a := c.arm(Fault{Op: op, Kind: FaultBlock, Times: -1}, 1000+c.serial)
	a.entered, a.release = make(chan struct{}, 1024), make(chan struct{})
	c.hasFaults.Store(true)
	return a.entered, sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		a.left = 0
		close(a.release)
	})
}

// Calls returns how often op was called, refused calls included.
func (c *Cloud) Calls(op Op) int {
	n, _ := c.store.counted(op)
	return int(n)
}

// Bodies returns the recorded requests in their order.
func (c *Cloud) Bodies() []Body {
	out, _ := c.store.bodies()
	return out
}

// Made returns how many objects an attempt ever made: the side-effect counter
// of launches.
func (c *Cloud) Made(attempt sdk.ID) int {
	n, _ := c.store.made(attempt)
	return n
}

// Jobs returns the IDs of all jobs that exist, in order.
func (c *Cloud) Jobs() []string {
	all, _ := c.store.all()
	out := make([]string, 0, len(all))
	for _, v := range all {
		out = append(out, v.rec.ID)
	}
	return out
}

// JobsOf returns the IDs of a run's jobs, in order.
func (c *Cloud) JobsOf(run sdk.ID) []string {
	all, _ := c.store.ofRun(run)
	var out []string
	for _, v := range all {
		out = append(out, v.rec.ID)
	}
	return out
}

// Marks counts the mark steps with this name that were carried out, by jobs
// that are there and jobs that were.
func (c *Cloud) Marks(name string) int {
	n, _ := c.store.marks(name)
	now := c.clock.Now()
	all, _ := c.store.all()
	for _, v := range all {
		for _, m := range v.line.marks {
			if m.key == name && !m.at.After(now) {
				n++
			}
		}
	}
	return n
}

// Describe returns all that the cloud tells who may describe a job, as JSON,
// or nil.
func (c *Cloud) Describe(id string) []byte {
	v, _ := c.store.load(id)
	if v == nil {
		return nil
	}
	out, err := json.Marshal(v.rec)
	if err != nil {
		return nil
	}
	return out
}

// OpenGate lets the jobs of a run go on that wait at a `gate`, or will; of all runs
// where the ID is zero. It is the end of an input that has nothing in it.
func (c *Cloud) OpenGate(run sdk.ID) error {
	views, err := c.store.all()
	if err != nil {
		return err
	}
	for _, v := range views {
		if run.IsZero() || v.rec.RunID == run {
			if err := c.store.endStdin(v.rec.ID, stdinFact{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Vanish removes a job behind everyone's back, and reports whether it was there.
func (c *Cloud) Vanish(id string) bool {
	v, _ := c.store.load(id)
	return v != nil && c.drop(v) == nil
}

// Forge makes a running job with these labels, as another owner's.
func (c *Cloud) Forge(owner string, run, attempt sdk.ID) (id string, err error) {
	rec := &record{V: 1, ID: jobPrefix + attempt.String(), RunID: run, AttemptID: attempt, Attempt: 1, Owner: owner, LedgerID: owner,
		Accepted: c.clock.Now(), Request: request{Name: "forged", Steps: []Step{{Do: "hang"}}}}
	_, err = c.store.create(rec)
	return rec.ID, err
}

// jobPrefix starts each job's ID.
const jobPrefix = "wl-"

// known returns a job unless the cloud has forgotten it, and the time at which
// it is looked at.
func (c *Cloud) known(id string) (*view, time.Time, error) {
	now := c.clock.Now()
	v, err := c.store.load(id)
	if err != nil || v == nil {
		return nil, now, err
	}
	if f := time.Duration(c.knobs.Load().Forget); f > 0 && !v.line.ended.IsZero() && now.Sub(v.line.ended) >= f {
		return nil, now, nil
	}
	return v, now, nil
}

// visible reports whether searches and lists show a job.
func (c *Cloud) visible(v *view, now time.Time) bool {
	k := c.knobs.Load()
	if now.Sub(v.rec.Accepted) < time.Duration(k.Visibility) {
		return false
	}
	f := time.Duration(k.Forget)
	return f <= 0 || v.line.ended.IsZero() || now.Sub(v.line.ended) < f
}

// submit makes a job. byName refuses a second one of the same name, a token
// answers with the first; without either each call makes another.
func (c *Cloud) submit(ctx context.Context, rec *record, byName bool) (v *view, adopted bool, err error) {
	in, err := c.enter(ctx, OpRunJob, rec)
	if err != nil {
		return nil, false, err
	}
	k := c.knobs.Load()
	rec.V, rec.Accepted, rec.StartDelay, rec.NoExitCode = 1, c.clock.Now(), k.StartDelay, rec.NoExitCode || k.NoExitCode
	if slices.Contains(k.MissingImages, rec.Request.Image) {
		rec.Request.Steps = []Step{{Do: "fail", Name: string(sdk.ReasonImagePull), Text: "manifest for " + rec.Request.Image + " not found"}}
	}
	if byName {
		rec.ID = jobPrefix + rec.AttemptID.String()
		created, err := c.store.create(rec)
		if err != nil {
			return nil, false, broken(OpRunJob, err)
		}
		if !created {
			if err := in.done(); err != nil {
				return nil, false, err
			}
			return nil, false, classify(opName(OpRunJob), &APIError{409, "Exists"}, 0)
		}
	} else if v, adopted, err = c.submitNumbered(rec); err != nil {
		return nil, false, broken(OpRunJob, err)
	}
	if !adopted {
		if v, err = c.store.load(rec.ID); err != nil || v == nil {
			return nil, false, broken(OpRunJob, fmt.Errorf("job %s is gone: %w", rec.ID, err))
		}
		c.hub.publish(rec.ID)
	}
	return v, adopted, in.done()
}

func (c *Cloud) submitNumbered(rec *record) (v *view, adopted bool, err error) {
	for n := 1; ; n++ {
		rec.ID = fmt.Sprintf("%s%s-%d", jobPrefix, rec.AttemptID, n)
		created, err := c.store.create(rec)
		if err != nil || created {
			return nil, false, err
		}
		old, err := c.store.load(rec.ID)
		if err != nil {
			return nil, false, err
		}
		if old != nil && rec.Token != "" && old.rec.Token == rec.Token &&
			rec.Accepted.Sub(old.rec.Accepted) <= time.Duration(rec.Request.TokenWindow) {
			return old, true, nil
		}
	}
}

package resourcetest

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func harnesses() map[string]Harness {
	c := fake.NewCloud(fake.Options{})
	return FakeHarnesses(c, fake.NewDriver(c, fake.Settings{}))
}

// boxes is the suite's harness on the fake's boxes, with what change makes of each
// provider.
func boxes(change func(p sdk.Provider) sdk.Provider) Harness {
	h := harnesses()[fake.TypeBox]
	open := h.Open
	h.Open = func(t testing.TB) sdk.Provider { return change(open(t)) }
	return h
}

func TestFake(t *testing.T) {
	for typ, h := range harnesses() {
		t.Run(typ, func(t *testing.T) { Run(t, h) })
	}
}

// TestFakeFolder shares a cloud through a folder, and nothing else.
func TestFakeFolder(t *testing.T) {
	dir := t.TempDir()
	c, err := fake.OpenCloud(dir, fake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := fake.Driver()
	open := d.Open
	d.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
		if r.Config, err = json.Marshal(map[string]string{"dir": dir}); err != nil {
			return nil, err
		}
		return open(ctx, r)
	}
	for typ, h := range FakeHarnesses(c, d) {
		h.LoseReply = nil // the faults of a folder come by its config
		t.Run(typ, func(t *testing.T) { Run(t, h) })
	}
}

// mistaken is a provider whose resources have one mistake.
type mistaken struct {
	sdk.Provider
	sdk.ResourceDriver
	m *mistake
}

// mistake changes what the good driver does; check is what must fail.
type mistake struct {
	fails  string
	create func(d sdk.ResourceDriver, ctx context.Context, r sdk.CreateResourceRequest) (sdk.CreateResourceResult, error)
	read   func(d sdk.ResourceDriver, ctx context.Context, r sdk.ReadResourceRequest) (sdk.ReadResourceResult, error)
	update func(d sdk.ResourceDriver, ctx context.Context, r sdk.UpdateResourceRequest) (sdk.UpdateResourceResult, error)
	remove func(d sdk.ResourceDriver, ctx context.Context, r sdk.DeleteResourceRequest) (sdk.DeleteResourceResult, error)
	diff   func(d sdk.ResourceDriver, ctx context.Context, r sdk.DiffResourceRequest) (sdk.DiffResourceResult, error)
	scale  func(d sdk.ResourceDriver, ctx context.Context, r sdk.ScaleResourceRequest) (sdk.ScaleResourceResult, error)
	keys   func(d sdk.ResourceDriver, ctx context.Context, r sdk.SensitiveKeysRequest) (sdk.SensitiveKeysResult, error)
}

func (b *mistaken) AskCapability(name string) any {
	if name == sdk.Resources().String() {
		return b
	}
	return b.Provider.(sdk.Asker).AskCapability(name)
}

func (b *mistaken) CreateResource(ctx context.Context, r sdk.CreateResourceRequest) (sdk.CreateResourceResult, error) {
	if b.m.create != nil {
		return b.m.create(b.ResourceDriver, ctx, r)
	}
	return b.ResourceDriver.CreateResource(ctx, r)
}

func (b *mistaken) ReadResource(ctx context.Context, r sdk.ReadResourceRequest) (sdk.ReadResourceResult, error) {
	if b.m.read != nil {
		return b.m.read(b.ResourceDriver, ctx, r)
	}
	return b.ResourceDriver.ReadResource(ctx, r)
}

func (b *mistaken) UpdateResource(ctx context.Context, r sdk.UpdateResourceRequest) (sdk.UpdateResourceResult, error) {
	if b.m.update != nil {
		return b.m.update(b.ResourceDriver, ctx, r)
	}
	return b.ResourceDriver.UpdateResource(ctx, r)
}

func (b *mistaken) DeleteResource(ctx context.Context, r sdk.DeleteResourceRequest) (sdk.DeleteResourceResult, error) {
	if b.m.remove != nil {
		return b.m.remove(b.ResourceDriver, ctx, r)
	}
	return b.ResourceDriver.DeleteResource(ctx, r)
}

func (b *mistaken) DiffResource(ctx context.Context, r sdk.DiffResourceRequest) (sdk.DiffResourceResult, error) {
	if b.m.diff != nil {
		return b.m.diff(b.ResourceDriver, ctx, r)
	}
	return b.ResourceDriver.DiffResource(ctx, r)
}

func (b *mistaken) ScaleResource(ctx context.Context, r sdk.ScaleResourceRequest) (sdk.ScaleResourceResult, error) {
	if b.m.scale != nil {
		return b.m.scale(b.ResourceDriver, ctx, r)
	}
	return b.ResourceDriver.ScaleResource(ctx, r)
}

func (b *mistaken) SensitiveKeys(ctx context.Context, r sdk.SensitiveKeysRequest) (sdk.SensitiveKeysResult, error) {
	if b.m.keys != nil {
		return b.m.keys(b.ResourceDriver, ctx, r)
	}
	return b.ResourceDriver.SensitiveKeys(ctx, r)
}

func mistakes() map[string]*mistake {
	ids := sdk.NewIDSource(sdk.SystemClock())
	return map[string]*mistake{
		"a taken name is taken over": {fails: "taken foreign", create: func(d sdk.ResourceDriver, ctx context.Context, r sdk.CreateResourceRequest) (sdk.CreateResourceResult, error) {
			res, err := d.CreateResource(ctx, r)
			if sdk.CodeOf(err) == sdk.AlreadyExists {
				got, err := d.ReadResource(ctx, sdk.ReadResourceRequest{Ref: sdk.ResourceRef{Name: r.Spec.Name, Type: r.Spec.Type}})
				return sdk.CreateResourceResult{Output: got.Output}, err
			}
			return res, err
		}},
		"a change sent again is refused": {fails: "sent-again", create: func(d sdk.ResourceDriver, ctx context.Context, r sdk.CreateResourceRequest) (sdk.CreateResourceResult, error) {
			if got, err := d.ReadResource(ctx, sdk.ReadResourceRequest{Ref: sdk.ResourceRef{Name: r.Spec.Name, Type: r.Spec.Type}}); err == nil && got.OpID == r.OpID {
				return sdk.CreateResourceResult{}, sdk.AlreadyExists
			}
			return d.CreateResource(ctx, r)
		}},
		"an ID is made up": {fails: "life taken sent-again replace no-op-id lost-create", create: func(d sdk.ResourceDriver, ctx context.Context, r sdk.CreateResourceRequest) (sdk.CreateResourceResult, error) {
			r.OpID = ids.NewID()
			return d.CreateResource(ctx, r)
		}},
		"the change isn't on record": {fails: "life taken update replace scale no-op-id lost-create", read: func(d sdk.ResourceDriver, ctx context.Context, r sdk.ReadResourceRequest) (sdk.ReadResourceResult, error) {
			res, err := d.ReadResource(ctx, r)
			res.OpID = sdk.ID{}
			return res, err
		}},
		"what is absent is empty": {fails: "absent unknown-member life size no-op-id context-ended lost-delete", read: func(d sdk.ResourceDriver, ctx context.Context, r sdk.ReadResourceRequest) (sdk.ReadResourceResult, error) {
			res, err := d.ReadResource(ctx, r)
			if sdk.CodeOf(err) == sdk.NotFound {
				return sdk.ReadResourceResult{}, nil
			}
			return res, err
		}},
		"an update does nothing": {fails: "update", update: func(d sdk.ResourceDriver, ctx context.Context, r sdk.UpdateResourceRequest) (sdk.UpdateResourceResult, error) {
			got, err := d.ReadResource(ctx, sdk.ReadResourceRequest{Ref: r.Ref})
			if err != nil || r.OpID.IsZero() || got.Owner == "" || strings.Contains(string(r.Spec.Config), "elm") {
				return d.UpdateResource(ctx, r)
			}
			return sdk.UpdateResourceResult{Output: got.Output}, nil
		}},
		"an update replaces": {fails: "replace", update: func(d sdk.ResourceDriver, ctx context.Context, r sdk.UpdateResourceRequest) (sdk.UpdateResourceResult, error) {
			res, err := d.UpdateResource(ctx, r)
			if sdk.CodeOf(err) == sdk.FailedPrecondition && strings.Contains(string(r.Spec.Config), "elm") {
				if _, err := d.DeleteResource(ctx, sdk.DeleteResourceRequest{OpID: ids.NewID(), Ref: r.Ref}); err != nil {
					return res, err
				}
				made, err := d.CreateResource(ctx, sdk.CreateResourceRequest{OpID: r.OpID, Spec: r.Spec})
				return sdk.UpdateResourceResult{Output: made.Output}, err
			}
			return res, err
		}},
		"gone is an error": {fails: "absent life context-ended lost-delete no-op-id refused-verbs size unknown-member", remove: func(d sdk.ResourceDriver, ctx context.Context, r sdk.DeleteResourceRequest) (sdk.DeleteResourceResult, error) {
			if _, err := d.ReadResource(ctx, sdk.ReadResourceRequest{Ref: r.Ref}); sdk.CodeOf(err) == sdk.NotFound {
				return sdk.DeleteResourceResult{}, err
			}
			return d.DeleteResource(ctx, r)
		}},
		"what is foreign is deleted": {fails: "foreign", remove: func(d sdk.ResourceDriver, ctx context.Context, r sdk.DeleteResourceRequest) (sdk.DeleteResourceResult, error) {
			res, err := d.DeleteResource(ctx, r)
			if sdk.CodeOf(err) == sdk.FailedPrecondition {
				err = nil
			}
			return res, err
		}},
		"nothing ever differs": {fails: "unknown-type unknown-member update replace size", diff: func(sdk.ResourceDriver, context.Context, sdk.DiffResourceRequest) (sdk.DiffResourceResult, error) {
			return sdk.DiffResourceResult{}, nil
		}},
		"a size is found out late": {fails: "size", diff: func(d sdk.ResourceDriver, ctx context.Context, r sdk.DiffResourceRequest) (sdk.DiffResourceResult, error) {
			r.Desired.Size, r.Desired.Hints = "", sdk.ResourceHints{}
			return d.DiffResource(ctx, r)
		}},
		"scale is cut to 32 bits": {fails: "scale", scale: func(d sdk.ResourceDriver, ctx context.Context, r sdk.ScaleResourceRequest) (sdk.ScaleResourceResult, error) {
			r.Replicas = int(uint32(r.Replicas) >> 1)
			return d.ScaleResource(ctx, r)
		}},
		"nothing is sensitive": {fails: "unknown-type sensitive", keys: func(sdk.ResourceDriver, context.Context, sdk.SensitiveKeysRequest) (sdk.SensitiveKeysResult, error) {
			return sdk.SensitiveKeysResult{}, nil
		}},
	}
}

// witness is a testing.TB that keeps whether a check failed.
type witness struct {
	testing.TB
	failed   bool
	cleanups []func()
}

func (w *witness) Errorf(format string, args ...any) {
	w.Logf("%s", fmt.Sprintf(format, args...))
	w.failed = true
}
func (w *witness) Fatalf(format string, args ...any) { w.Errorf(format, args...); runtime.Goexit() }
func (w *witness) Fatal(args ...any)                 { w.Fatalf("%s", fmt.Sprint(args...)) }
func (w *witness) Skip(args ...any)                  { runtime.Goexit() }
func (w *witness) Skipf(string, ...any)              { runtime.Goexit() }
func (w *witness) Cleanup(f func())                  { w.cleanups = append(w.cleanups, f) }

// failed runs a check and reports whether it failed.
func failed(t *testing.T, h Harness, c check) bool {
	w := &witness{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, f := range slices.Backward(w.cleanups) {
				f()
			}
		}()
		try(w, h, c)
	}()
	<-done
	return w.failed
}

// TestMistakes gives the suite drivers with one mistake each, which the named checks
// must find.
func TestMistakes(t *testing.T) {
	for name, m := range mistakes() {
		t.Run(name, func(t *testing.T) {
			h := boxes(func(p sdk.Provider) sdk.Provider {
				d, _ := sdk.Of(p, sdk.Resources())
				return &mistaken{Provider: p, ResourceDriver: d, m: m}
			})
			var got []string
			for _, c := range checks() {
				if failed(t, h, c) {
					got = append(got, c.name)
				}
			}
			want := strings.Fields(m.fails)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("failed: %q, want %q", got, want)
			}
		})
	}
}

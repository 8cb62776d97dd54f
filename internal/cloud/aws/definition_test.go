package aws

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/windlass-run/windlass/sdk"
)

// service is where definitions are, by name.
type service struct {
	there             atomic.Bool
	looks, registered atomic.Int32
}

func (s *service) find() (bool, error) {
	s.looks.Add(1)
	return s.there.Load(), nil
}

func (s *service) register() error {
	s.registered.Add(1)
	s.there.Store(true)
	return nil
}

func (s *service) ensure(t *testing.T, d *Definitions, gone int) int {
	t.Helper()
	v, err := d.Ensure(t.Context(), "d", gone, s.find, s.register)
	if err != nil || v == 0 {
		t.Errorf("version %d, %v", v, err)
	}
	return v
}

// TestDefinitionOnce: those who want a definition at once register one; those who
// find it gone at once register one more, without a look that may not know yet.
func TestDefinitionOnce(t *testing.T) {
	var d Definitions
	var s service
	gone := 0
	for round := range int32(3) {
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { s.ensure(t, &d, gone) })
		}
		wg.Wait()
		if n := s.registered.Load(); n != round+1 || s.looks.Load() != 1 {
			t.Fatalf("round %d: %d registered, %d looks", round, n, s.looks.Load())
		}
		last := gone
		gone = s.ensure(t, &d, 0)
		if gone == last {
			t.Errorf("a definition made anew has the version %d of the last", gone)
		}
	}
}

// TestDefinitionRetired: what was taken away is looked for again, and forgotten
// while nobody wants it.
func TestDefinitionRetired(t *testing.T) {
	var d Definitions
	var s service
	s.ensure(t, &d, 0)
	for range 2 { // whether it was taken away or not
		if err := d.Retire(t.Context(), "d", func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		if len(d.m) != 0 {
			t.Errorf("%d definitions are kept", len(d.m))
		}
		s.ensure(t, &d, 0)
	}
	if s.looks.Load() != 3 || s.registered.Load() != 1 {
		t.Errorf("%d looks, %d registered", s.looks.Load(), s.registered.Load())
	}
	busy := errors.New("in use")
	if err := d.Retire(t.Context(), "d", func() error { return busy }); !errors.Is(err, busy) {
		t.Errorf("got %v", err)
	}
}

// TestDefinitionFailed: a failure is everybody's own, and the next tries again.
func TestDefinitionFailed(t *testing.T) {
	var d Definitions
	no := errors.New("no")
	good := func() error { return nil }
	for _, k := range []struct {
		find     error
		register error
	}{{no, nil}, {nil, no}} {
		_, err := d.Ensure(t.Context(), "d", 0, func() (bool, error) { return false, k.find }, func() error { return k.register })
		if !errors.Is(err, no) || len(d.m) != 0 {
			t.Errorf("got %v, %d definitions are kept", err, len(d.m))
		}
	}
	if v, err := d.Ensure(t.Context(), "d", 0, func() (bool, error) { return false, nil }, good); err != nil || v == 0 {
		t.Errorf("version %d, %v", v, err)
	}
}

// TestDefinitionWait: who waits for another's look goes with his context.
func TestDefinitionWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d Definitions
		hold, done := make(chan struct{}), make(chan error)
		go func() { done <- d.Retire(t.Context(), "d", func() error { <-hold; return nil }) }()
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			_, err := d.Ensure(ctx, "d", 0, nil, nil)
			done <- err
		}()
		synctest.Wait()
		enough := errors.New("enough")
		cancel(enough)
		if err := <-done; !errors.Is(err, enough) {
			t.Errorf("got %v", err)
		}
		close(hold)
		if err := <-done; err != nil || len(d.m) != 0 {
			t.Errorf("got %v, %d definitions are kept", err, len(d.m))
		}
	})
}

// TestRefused: a launch's refusal says whether it is the job's own.
func TestRefused(t *testing.T) {
	for _, k := range []struct {
		code   sdk.Code
		reason sdk.Reason
		again  bool
	}{
		{sdk.InvalidArgument, sdk.ReasonInvalidSpec, false},
		{sdk.ResourceExhausted, sdk.ReasonQueued, true},
		{sdk.PermissionDenied, "", false},
	} {
		in := &sdk.Error{Code: k.code, Err: errors.New("x")}
		var e *sdk.Error
		if !errors.As(Refused(in), &e) || e.Reason != k.reason || e.Retryable != k.again || e.Code != k.code || in.Reason != "" {
			t.Errorf("%s: %+v", k.code, e)
		}
	}
	if err := errors.New("x"); !errors.Is(Refused(err), err) || Refused(nil) != nil {
		t.Error("what is no refusal was changed")
	}
}

// TestOpenFor: what can't be a tag is refused before anything is asked.
func TestOpenFor(t *testing.T) {
	r := sdk.OpenRequest{Name: "prod", Owner: "a\x00b"}
	var e *sdk.Error
	if _, err := OpenFor(t.Context(), r, Settings{Region: "eu-west-1"}); !errors.As(err, &e) || e.Field != "owner" || e.Provider != "prod" {
		t.Errorf("owner: %v", err)
	}
	if err := CheckTags("prod", map[string]string{"team": "a", "windlass-run": "x"}); !errors.As(err, &e) || e.Field != "config.tags.windlass-run" || !strings.Contains(err.Error(), "prod") {
		t.Errorf("tags: %v", err)
	}
	r.Owner, r.Credentials = "ann", map[string]string{"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
	x, err := OpenFor(t.Context(), r, Settings{Region: "eu-west-1", Account: "123456789012"})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if x.Account != "123456789012" || x.Region != "eu-west-1" || x.provider != "prod" {
		t.Errorf("session of %s in %s for %s", x.Account, x.Region, x.provider)
	}
}

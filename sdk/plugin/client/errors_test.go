package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/sdk"
)

// failing is a provider that can do everything, and fails at all of it.
type failing struct {
	err func(ctx context.Context) error
}

func fail[R any](ctx context.Context, f *failing) (R, error) {
	var none R
	return none, f.err(ctx)
}

func failStream[R any](ctx context.Context, f *failing) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) { yield(fail[R](ctx, f)) }
}

func (f *failing) Info() sdk.Info { return sdk.Info{Name: "failing", Kind: "failing"} }
func (f *failing) Close() error   { return nil }

func (f *failing) Check(ctx context.Context, _ sdk.CheckRequest) (sdk.CheckResult, error) {
	return fail[sdk.CheckResult](ctx, f)
}

func (f *failing) PrepareJob(ctx context.Context, _ sdk.PrepareJobRequest) (sdk.Launch, error) {
	return fail[sdk.Launch](ctx, f)
}

func (f *failing) RunJob(ctx context.Context, _ sdk.RunJobRequest) (sdk.RunJobResult, error) {
	return fail[sdk.RunJobResult](ctx, f)
}

func (f *failing) JobStatus(ctx context.Context, _ sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	return fail[sdk.JobStatusResult](ctx, f)
}

func (f *failing) FindJobs(ctx context.Context, _ sdk.FindJobsRequest) (sdk.FindJobsResult, error) {
	return fail[sdk.FindJobsResult](ctx, f)
}

func (f *failing) CancelJob(ctx context.Context, _ sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	return fail[sdk.CancelJobResult](ctx, f)
}

func (f *failing) CleanupJob(ctx context.Context, _ sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
	return fail[sdk.CleanupJobResult](ctx, f)
}

func (f *failing) JobLogs(ctx context.Context, _ sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return failStream[sdk.LogItem](ctx, f)
}

func (f *failing) JobStatuses(ctx context.Context, _ sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	return fail[sdk.JobStatusesResult](ctx, f)
}

func (f *failing) WatchJobs(ctx context.Context, _ sdk.WatchJobsRequest) iter.Seq2[sdk.WatchEvent, error] {
	return failStream[sdk.WatchEvent](ctx, f)
}

func (f *failing) ListOwned(ctx context.Context, _ sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error] {
	return failStream[sdk.OwnedObject](ctx, f)
}

func (f *failing) RemoveOwned(ctx context.Context, _ sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error) {
	return fail[sdk.RemoveOwnedResult](ctx, f)
}

func (f *failing) RenewExpiry(ctx context.Context, _ sdk.RenewExpiryRequest) (sdk.RenewExpiryResult, error) {
	return fail[sdk.RenewExpiryResult](ctx, f)
}

// calls returns every method of every capability that p has, by reflection, so that none
// can be forgotten. Each is called with an empty request.
func calls(t *testing.T, p sdk.Provider) map[string]func(ctx context.Context) error {
	t.Helper()
	out := map[string]func(context.Context) error{
		"Check": func(ctx context.Context) error {
			_, err := p.Check(ctx, sdk.CheckRequest{})
			return err
		},
	}
	for _, row := range sdk.Capabilities() {
		if !sdk.Has(p, row.Name) {
			continue
		}
		asked := p.(sdk.Asker).AskCapability(row.Name)
		for m := range row.Type().Methods() {
			method := reflect.ValueOf(asked).MethodByName(m.Name)
			request := reflect.Zero(m.Type.In(1))
			out[m.Name] = func(ctx context.Context) error {
				res := method.Call([]reflect.Value{reflect.ValueOf(ctx), request})
				if len(res) == 2 {
					err, _ := res[1].Interface().(error)
					return err
				}
				return last(res[0])
			}
		}
	}
	return out
}

// last ranges over a stream of whatever items, and returns its error.
func last(seq reflect.Value) error {
	var err error
	for _, e := range seq.Seq2() {
		err, _ = e.Interface().(error)
	}
	return err
}

// TestErrorsOfEveryMethod lets every method fail with every code, with all that an error
// has and with nothing but the code, and wants the same of it as in process.
func TestErrorsOfEveryMethod(t *testing.T) {
	f := &failing{}
	p := open(t, f)
	methods := calls(t, p)
	if len(methods) < 13 {
		t.Fatalf("%d methods", len(methods))
	}
	for name, call := range methods {
		for _, code := range sdk.Codes() {
			full := &sdk.Error{Code: code, Op: "do it", Provider: "prod", Field: "cpu", Retryable: true, RetryAfter: 7 * time.Second,
				Reason: sdk.ReasonQuota, ID: "x.y", Remedy: "wait", Err: errors.New("the backend says so")}
			for what, sent := range map[string]error{"full": full, "bare": code, "wrapped": fmt.Errorf("around: %w", full),
				"unreached": &sdk.Error{Code: code, Unreached: true}} {
				f.err = func(context.Context) error { return sent }
				got := call(t.Context())
				if got == nil || got.Error() != sent.Error() {
					t.Errorf("%s, %s %v: the text is %v, was %v", name, what, code, got, sent)
					continue
				}
				for _, c := range sdk.Codes() {
					if errors.Is(got, c) != (c == code) {
						t.Errorf("%s, %s %v: errors.Is(%v) is %t", name, what, code, c, errors.Is(got, c))
					}
				}
				if sdk.IsRetryable(got) != sdk.IsRetryable(sent) || sdk.RetryAfter(got) != sdk.RetryAfter(sent) || sdk.IsClear(got) != sdk.IsClear(sent) || sdk.IsUnreached(got) != sdk.IsUnreached(sent) {
					t.Errorf("%s, %s %v: came back as %+v", name, what, code, got)
				}
				if status.Code(got) != codes.Code(code) {
					t.Errorf("%s, %s %v: gRPC's status is %v", name, what, code, status.Code(got))
				}
				var e *sdk.Error
				if what == "full" && (!errors.As(got, &e) || e.Field != full.Field || e.Op != full.Op || e.Provider != full.Provider || e.Reason != full.Reason || e.ID != full.ID || e.Remedy != full.Remedy) {
					t.Errorf("%s, %v: came back as %+v", name, code, e)
				}
			}
		}
	}
}

// TestOwnEndOfEveryMethod lets a caller leave, and another's time pass, while a plugin is
// about to say that the call may be tried again: it is the caller's own end that counts.
func TestOwnEndOfEveryMethod(t *testing.T) {
	entered := make(chan struct{}, 1)
	f := &failing{err: func(ctx context.Context) error {
		entered <- struct{}{}
		<-ctx.Done()
		return &sdk.Error{Code: sdk.Unavailable, Retryable: true, Err: errors.New("cut")}
	}}
	for name, call := range calls(t, open(t, f)) {
		for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
			late := errors.Is(want, context.DeadlineExceeded)
			wait := time.Hour
			if late {
				wait = 20 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			done := make(chan error, 1)
			go func() { done <- call(ctx) }()
			var err error
			select {
			case <-entered:
				if !late {
					cancel()
				}
				err = <-done
			case err = <-done: // its time was over before it arrived
			}
			cancel()
			if !errors.Is(err, want) || !errors.Is(err, sdk.CodeOf(want)) || sdk.IsRetryable(err) || sdk.IsClear(err) {
				t.Errorf("%s: %v, retryable %t, clear %t: %v", name, sdk.CodeOf(err), sdk.IsRetryable(err), sdk.IsClear(err), err)
			}
		}
	}
}

// TestPartialErrors wants the errors of a batch's items back as those of calls.
func TestPartialErrors(t *testing.T) {
	var items []sdk.JobStatusItem
	for _, code := range sdk.Codes() {
		items = append(items, sdk.JobStatusItem{Err: &sdk.Error{Code: code, Op: "look", Field: "id", Retryable: true, RetryAfter: time.Minute, Err: errors.New("no")}})
	}
	b := of(t, open(t, &batching{items: items}), sdk.Batcher())
	res, err := b.JobStatuses(t.Context(), sdk.JobStatusesRequest{Handles: make([]sdk.JobHandle, len(items))})
	if err != nil {
		t.Fatal(err)
	}
	for i, it := range res.Items {
		if !errors.Is(it.Err, sdk.Codes()[i]) || !sdk.IsRetryable(it.Err) || sdk.RetryAfter(it.Err) != time.Minute || it.Err.Error() != items[i].Err.Error() {
			t.Errorf("item %d: %v", i, it.Err)
		}
	}
}

type batching struct {
	failing
	items []sdk.JobStatusItem
}

func (b *batching) JobStatuses(context.Context, sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	return sdk.JobStatusesResult{Items: slices.Clone(b.items)}, nil
}

package providertest

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func otherMistakes() []mistake {
	lists := func(f func(b *broken, r *sdk.ListOwnedRequest, o *sdk.OwnedObject)) broken {
		return broken{list: func(b *broken, ctx context.Context, r sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error] {
			f(b, &r, &sdk.OwnedObject{})
			return func(yield func(sdk.OwnedObject, error) bool) {
				for o, err := range need(b.good, sdk.Lister()).ListOwned(ctx, r) {
					f(b, &r, &o)
					if !yield(o, err) {
						return
					}
				}
			}
		}}
	}
	return []mistake{
		{name: "batch misaligned", fails: "batch", broken: broken{
			batch: func(b *broken, ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
				res, err := need(b.good, sdk.Batcher()).JobStatuses(ctx, r)
				slices.Reverse(res.Items)
				return res, err
			}}},
		{name: "too large a batch", fails: "batch-limits", settings: fake.Settings{BatchMax: 8}, broken: broken{
			batch: func(b *broken, ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
				r.Handles = r.Handles[:min(len(r.Handles), 8)]
				return need(b.good, sdk.Batcher()).JobStatuses(ctx, r)
			}}},
		{name: "a watch that tells nothing", fails: "watch", broken: broken{
			watch: func(b *broken, ctx context.Context, r sdk.WatchJobsRequest) iter.Seq2[sdk.WatchEvent, error] {
				return func(yield func(sdk.WatchEvent, error) bool) {
					for e, err := range need(b.good, sdk.Watcher()).WatchJobs(ctx, r) {
						if err != nil && !yield(e, err) {
							return
						}
					}
				}
			}}},
		{name: "nothing is live", fails: "owned-list", broken: lists(func(_ *broken, _ *sdk.ListOwnedRequest, o *sdk.OwnedObject) { o.Live = false })},
		{name: "a job that runs has ended", fails: "owned-list", broken: lists(func(_ *broken, _ *sdk.ListOwnedRequest, o *sdk.OwnedObject) {
			if o.Live {
				o.Ended = time.Now()
			}
		})},
		{name: "a list leaks", fails: "owned-break", broken: lists(func(_ *broken, r *sdk.ListOwnedRequest, o *sdk.OwnedObject) {
			if r.Owner == "" && o.ID == "" {
				go time.Sleep(time.Hour) //sleep: what the double does wrong
			}
		})},
		{name: "removed in spite of its labels", fails: "owned-remove", broken: broken{
			remove: func(b *broken, ctx context.Context, r sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error) {
				_, err := need(b.good, sdk.Lister()).RemoveOwned(ctx, r)
				if errors.Is(err, sdk.FailedPrecondition) {
					b.cloud.Vanish(r.Object.ID)
					err = nil
				}
				return sdk.RemoveOwnedResult{}, err
			}}},
		{name: "all owners listed", fails: "owned-foreign", broken: lists(func(_ *broken, r *sdk.ListOwnedRequest, _ *sdk.OwnedObject) {
			if r.Owner == "suite" {
				r.Owner = ""
			}
		})},
		{name: "expiry stays", fails: "renew", broken: broken{
			renew: func(b *broken, ctx context.Context, r sdk.RenewExpiryRequest) (sdk.RenewExpiryResult, error) {
				r.Expires = r.Expires.Add(-time.Hour)
				return need(b.good, sdk.Renewer()).RenewExpiry(ctx, r)
			}}},
		{name: "one line of a secret", fails: "secret-delivered", driver: func(d *sdk.Driver) {
			open := d.Open
			d.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
				r.Secrets = firstLine{r.Secrets}
				return open(ctx, r)
			}
		}},
		secretInHandle(),
		{name: "a missing secret left out", fails: "secret-missing", broken: broken{
			run: func(b *broken, ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
				res, err := need(b.good, sdk.Runner()).RunJob(ctx, r)
				if errors.Is(err, sdk.NotFound) {
					r.Launch.Secrets = nil
					return need(b.good, sdk.Runner()).RunJob(ctx, r)
				}
				return res, err
			}}},
		{name: "visible secrets not refused", fails: "secret-visible", settings: settings(func(g *sdk.Guarantees) { g.Secrets = sdk.SecretVisibleEnv }),
			broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) { r.Spec.AllowVisibleSecret = true })},
		{name: "an ended context not looked at", fails: "context-ended", broken: broken{
			run: func(b *broken, ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
				if ctx.Err() != nil {
					ctx = context.WithoutCancel(ctx)
				}
				return need(b.good, sdk.Runner()).RunJob(ctx, r)
			}}},
		{name: "deaf to its context", fails: "context-blocked", broken: broken{
			status: func(b *broken, ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
				if ctx.Err() == nil {
					ctx = context.WithoutCancel(ctx)
				}
				return need(b.good, sdk.Runner()).JobStatus(ctx, r)
			}}},
		{name: "429 taken for an outage", fails: "throttled", broken: broken{
			status: func(b *broken, ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
				st, err := need(b.good, sdk.Runner()).JobStatus(ctx, r)
				if errors.Is(err, sdk.ResourceExhausted) {
					err = sdk.Errorf(sdk.Unavailable, "read job status", "429")
				}
				return st, err
			}}},
		{name: "handles mixed up", fails: "concurrent", broken: mixed()},
	}
}

// secretInHandle puts a secret, in base64, where handles are kept.
func secretInHandle() mistake {
	var resolver sdk.SecretResolver
	m := mistake{name: "secret in the handle", fails: "secret-hidden"}
	m.driver = func(d *sdk.Driver) {
		open := d.Open
		d.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
			if r.Secrets != nil {
				resolver = r.Secrets
			}
			return open(ctx, r)
		}
	}
	m.broken = handles(func(_ *broken, r sdk.RunJobRequest, res *sdk.RunJobResult) {
		for _, ref := range r.Launch.Secrets {
			if v, err := resolver.ResolveSecret(context.Background(), ref); err == nil {
				res.Handle.Metadata["note"] = base64.StdEncoding.EncodeToString(append([]byte("x"), v.Reveal()...))
			}
		}
	})
	return m
}

// mixed keeps the handle in a place that all calls share.
func mixed() broken {
	var mu sync.Mutex
	var last sdk.RunJobResult
	return handles(func(_ *broken, _ sdk.RunJobRequest, res *sdk.RunJobResult) {
		mu.Lock()
		last = *res
		mu.Unlock()
		time.Sleep(time.Millisecond) //sleep: what the double does wrong
		mu.Lock()
		*res = last
		mu.Unlock()
	})
}

// firstLine resolves secrets and loses all but their first line.
type firstLine struct{ sdk.SecretResolver }

func (f firstLine) ResolveSecret(ctx context.Context, ref sdk.SecretRef) (sdk.SecretValue, error) {
	v, err := f.SecretResolver.ResolveSecret(ctx, ref)
	line, _, _ := bytes.Cut(v.Reveal(), []byte{'\n'})
	return sdk.NewSecretValue(line), err
}

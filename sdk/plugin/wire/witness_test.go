package wire_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"reflect"
	"slices"
	"testing"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// witness has every capability, is asked with everything set, and gives everything set,
// as its book has it.
type witness struct {
	t    testing.TB
	book book
}

func (w *witness) driver() sdk.Driver {
	d := valueOf[sdk.Driver](w.book)
	d.Capabilities = sdk.CapabilityNames(w)
	slices.Sort(d.Capabilities)
	d.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
		v, err := r.Secrets.ResolveSecret(ctx, "secret://env/A")
		if err != nil || string(v.Reveal()) != "secret://env/A" {
			w.t.Errorf("the secret is %v, %v", v, err)
		}
		want := valueOf[opening](w.book).Request
		r.Secrets, r.Clock, r.IDs, r.Log, r.Executable = nil, nil, nil, nil, ""
		if !reflect.DeepEqual(r, want) {
			w.t.Errorf("opened with\n%+v, want\n%+v", r, want)
		}
		return w, nil
	}
	return d
}

func (w *witness) Info() sdk.Info { return valueOf[wire.Opened](w.book).Info }
func (w *witness) Close() error   { return nil }

func (w *witness) Check(context.Context, sdk.CheckRequest) (sdk.CheckResult, error) {
	return valueOf[sdk.CheckResult](w.book), nil
}

// gives wants what the book has, and gives what it has.
func gives[A, B any](w *witness, r A) (B, error) {
	if want := valueOf[A](w.book); !reflect.DeepEqual(r, want) {
		w.t.Errorf("asked with\n%+v, want\n%+v", r, want)
	}
	return valueOf[B](w.book), nil
}

func streams[A, B any](w *witness, r A) iter.Seq2[B, error] {
	_, _ = gives[A, B](w, r)
	return func(yield func(B, error) bool) {
		for _, v := range w.book.said(reflect.TypeFor[B]()) {
			if !yield(v.Interface().(B), nil) {
				return
			}
		}
	}
}

func (w *witness) RunJob(_ context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	w.reads(r.Stdin)
	r.Progress("pulling")
	r.Stdin, r.Progress = nil, nil
	return gives[sdk.RunJobRequest, sdk.RunJobResult](w, r)
}

func (w *witness) ExecWorkload(_ context.Context, r sdk.ExecWorkloadRequest) (sdk.ExecWorkloadResult, error) {
	w.reads(r.Stdin)
	if err := errors.Join(write(r.Stdout, "out"), write(r.Stderr, "err")); err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	r.Stdin, r.Stdout, r.Stderr, r.Resize, r.Signals = nil, nil, nil, nil, nil
	return gives[sdk.ExecWorkloadRequest, sdk.ExecWorkloadResult](w, r)
}

func write(to io.Writer, text string) error {
	_, err := io.WriteString(to, text)
	return err
}

func (w *witness) reads(in io.Reader) {
	if got, err := io.ReadAll(in); err != nil || string(got) != "input" {
		w.t.Errorf("the input is %q, %v", got, err)
	}
}

func (w *witness) JobStatus(_ context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	if reflect.DeepEqual(r, sdk.JobStatusRequest{}) {
		return sdk.JobStatusResult{}, refusal()
	}
	return gives[sdk.JobStatusRequest, sdk.JobStatusResult](w, r)
}

func (w *witness) PrepareJob(_ context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	return gives[sdk.PrepareJobRequest, sdk.Launch](w, r)
}

func (w *witness) FindJobs(_ context.Context, r sdk.FindJobsRequest) (sdk.FindJobsResult, error) {
	return gives[sdk.FindJobsRequest, sdk.FindJobsResult](w, r)
}

func (w *witness) CancelJob(_ context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	return gives[sdk.CancelJobRequest, sdk.CancelJobResult](w, r)
}

func (w *witness) CleanupJob(_ context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
	return gives[sdk.CleanupJobRequest, sdk.CleanupJobResult](w, r)
}

func (w *witness) JobLogs(_ context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return streams[sdk.JobLogsRequest, sdk.LogItem](w, r)
}

func (w *witness) JobStatuses(_ context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	return gives[sdk.JobStatusesRequest, sdk.JobStatusesResult](w, r)
}

func (w *witness) WatchJobs(_ context.Context, r sdk.WatchJobsRequest) iter.Seq2[sdk.WatchEvent, error] {
	return streams[sdk.WatchJobsRequest, sdk.WatchEvent](w, r)
}

func (w *witness) ListOwned(_ context.Context, r sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error] {
	return streams[sdk.ListOwnedRequest, sdk.OwnedObject](w, r)
}

func (w *witness) RemoveOwned(_ context.Context, r sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error) {
	return gives[sdk.RemoveOwnedRequest, sdk.RemoveOwnedResult](w, r)
}

func (w *witness) RenewExpiry(_ context.Context, r sdk.RenewExpiryRequest) (sdk.RenewExpiryResult, error) {
	return gives[sdk.RenewExpiryRequest, sdk.RenewExpiryResult](w, r)
}

func (w *witness) CreateResource(_ context.Context, r sdk.CreateResourceRequest) (sdk.CreateResourceResult, error) {
	return gives[sdk.CreateResourceRequest, sdk.CreateResourceResult](w, r)
}

func (w *witness) ReadResource(_ context.Context, r sdk.ReadResourceRequest) (sdk.ReadResourceResult, error) {
	return gives[sdk.ReadResourceRequest, sdk.ReadResourceResult](w, r)
}

func (w *witness) UpdateResource(_ context.Context, r sdk.UpdateResourceRequest) (sdk.UpdateResourceResult, error) {
	return gives[sdk.UpdateResourceRequest, sdk.UpdateResourceResult](w, r)
}

func (w *witness) DeleteResource(_ context.Context, r sdk.DeleteResourceRequest) (sdk.DeleteResourceResult, error) {
	return gives[sdk.DeleteResourceRequest, sdk.DeleteResourceResult](w, r)
}

func (w *witness) DiffResource(_ context.Context, r sdk.DiffResourceRequest) (sdk.DiffResourceResult, error) {
	return gives[sdk.DiffResourceRequest, sdk.DiffResourceResult](w, r)
}

func (w *witness) ScaleResource(_ context.Context, r sdk.ScaleResourceRequest) (sdk.ScaleResourceResult, error) {
	return gives[sdk.ScaleResourceRequest, sdk.ScaleResourceResult](w, r)
}

func (w *witness) HealthCheckResource(_ context.Context, r sdk.HealthCheckResourceRequest) (sdk.HealthCheckResourceResult, error) {
	return gives[sdk.HealthCheckResourceRequest, sdk.HealthCheckResourceResult](w, r)
}

func (w *witness) SensitiveKeys(_ context.Context, r sdk.SensitiveKeysRequest) (sdk.SensitiveKeysResult, error) {
	return gives[sdk.SensitiveKeysRequest, sdk.SensitiveKeysResult](w, r)
}

func (w *witness) TroubleshootResource(_ context.Context, r sdk.TroubleshootResourceRequest) (sdk.TroubleshootResourceResult, error) {
	return gives[sdk.TroubleshootResourceRequest, sdk.TroubleshootResourceResult](w, r)
}

func (w *witness) ListWorkloads(_ context.Context, r sdk.ListWorkloadsRequest) iter.Seq2[sdk.WorkloadItem, error] {
	return streams[sdk.ListWorkloadsRequest, sdk.WorkloadItem](w, r)
}

func (w *witness) WorkloadStatus(_ context.Context, r sdk.WorkloadStatusRequest) (sdk.WorkloadStatusResult, error) {
	return gives[sdk.WorkloadStatusRequest, sdk.WorkloadStatusResult](w, r)
}

func (w *witness) StartWorkload(_ context.Context, r sdk.StartWorkloadRequest) (sdk.StartWorkloadResult, error) {
	return gives[sdk.StartWorkloadRequest, sdk.StartWorkloadResult](w, r)
}

func (w *witness) StopWorkload(_ context.Context, r sdk.StopWorkloadRequest) (sdk.StopWorkloadResult, error) {
	return gives[sdk.StopWorkloadRequest, sdk.StopWorkloadResult](w, r)
}

func (w *witness) ScaleWorkload(_ context.Context, r sdk.ScaleWorkloadRequest) (sdk.ScaleWorkloadResult, error) {
	return gives[sdk.ScaleWorkloadRequest, sdk.ScaleWorkloadResult](w, r)
}

func (w *witness) RestartWorkload(_ context.Context, r sdk.RestartWorkloadRequest) (sdk.RestartWorkloadResult, error) {
	return gives[sdk.RestartWorkloadRequest, sdk.RestartWorkloadResult](w, r)
}

func (w *witness) ApplyConfig(_ context.Context, r sdk.ApplyConfigRequest) (sdk.ApplyConfigResult, error) {
	return gives[sdk.ApplyConfigRequest, sdk.ApplyConfigResult](w, r)
}

func (w *witness) TailLogs(_ context.Context, r sdk.TailLogsRequest) iter.Seq2[sdk.WorkloadLogItem, error] {
	return streams[sdk.TailLogsRequest, sdk.WorkloadLogItem](w, r)
}

func (w *witness) StreamMetrics(_ context.Context, r sdk.StreamMetricsRequest) iter.Seq2[sdk.MetricItem, error] {
	return streams[sdk.StreamMetricsRequest, sdk.MetricItem](w, r)
}

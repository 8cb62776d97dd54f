package cli

import (
	"context"
	"iter"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// Engine is what commands ask of internal/control. Tests bring a scripted one.
type Engine interface {
	Plan(ctx context.Context, r control.SubmitRequest) (control.Plan, error)
	Submit(ctx context.Context, r control.SubmitRequest) (control.Submitted, error)
	Resolve(ctx context.Context, ref string) (ledger.Run, error)
	Wait(ctx context.Context, id sdk.ID, until control.Milestone) (ledger.Run, error)
	Watch(ctx context.Context, id sdk.ID, until control.Milestone, see func(ledger.Run)) (ledger.Run, error)
	Follow(ctx context.Context, id sdk.ID, o control.FollowOptions) iter.Seq2[control.FollowItem, error]
	Cancel(ctx context.Context, r control.CancelRequest) error
	Abandon(ctx context.Context, id sdk.ID, actor, why string) error
	Adopt(ctx context.Context, r control.AdoptRequest) (ledger.Run, error)
	Remote(ctx context.Context, provider string, run sdk.ID) (control.RemoteJob, error)
	RemoteLogs(ctx context.Context, provider string, run sdk.ID, follow bool) iter.Seq2[sdk.LogItem, error]
	RemoteCancel(ctx context.Context, provider string, run sdk.ID, actor, why string) (sdk.CancelJobResult, error)
	Recover(ctx context.Context, provider string) (int, error)
	SettleActions(ctx context.Context) ([]control.SettledAction, error)
	HandOver(ctx context.Context, id sdk.ID) error
	Remove(ctx context.Context, id sdk.ID, actor string) error
	Prune(ctx context.Context, before time.Time, actor string) (int, error)
	Retain(ctx context.Context, r control.Retention, actor string) (control.Retained, error)
	RetainDaily(ctx context.Context, r control.Retention, actor string, resume bool) (control.Retained, error)
	Reap(ctx context.Context, r control.ReapRequest) iter.Seq2[control.ReapItem, error]
	Held() []sdk.ID
	Orphaned(ctx context.Context, id sdk.ID) (bool, error)
	Resources
}

// Resources is the part of Engine that keeps resources.
type Resources interface {
	ReadResource(ctx context.Context, r control.ResourceRequest) (control.ResourceState, error)
	DiffResource(ctx context.Context, r control.ResourceRequest) (control.ResourcePlan, error)
	ApplyResource(ctx context.Context, r control.ResourceRequest, replace bool) (control.ResourceOutcome, error)
	PlanDeleteResource(ctx context.Context, r control.ResourceRequest) (control.ResourcePlan, error)
	DeleteResource(ctx context.Context, r control.ResourceRequest) (control.ResourceOutcome, error)
	ScaleResource(ctx context.Context, r control.ResourceRequest, replicas int) (control.ResourceOutcome, error)
	HealthCheckResource(ctx context.Context, r control.ResourceRequest) (sdk.HealthCheckResourceResult, error)
	TroubleshootResource(ctx context.Context, r control.ResourceRequest, failure string) ([]sdk.Diagnostic, error)
}

var _ Engine = (*control.Engine)(nil)

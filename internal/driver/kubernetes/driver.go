// Package kubernetes runs jobs on Kubernetes, as Jobs of batch/v1; live workloads are
// its package workload's.
//
// An attempt is one Job whose name follows from the attempt's ID, so that a second
// one is refused however often the launch is sent. The Job starts one pod and no
// other. Time-outs and cancels lower the pod's own deadline: the kubelet then ends
// the container and keeps the pod, with exit code and log. The Job is deleted once
// its output was read.
package kubernetes

import (
	"context"
	"log/slog"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/hosted"
	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/internal/driver/kubernetes/workload"
	"github.com/windlass-run/windlass/sdk"
)

// Kind is the name of this backend.
const Kind = "kubernetes"

// batchMax is the most handles of one JobStatuses call: their IDs stand in a
// selector within the call's address.
const batchMax = 100

// Driver returns the driver, which finds clusters by kubeconfigs and as pods do.
func Driver() sdk.Driver { return DriverWith() }

// DriverWith returns the driver for clusters of clouds besides. Providers that come of
// one value share the budget of calls to their API server.
func DriverWith(clouds ...hosted.Cloud) sdk.Driver {
	budgets := &kube.Budgets{}
	return sdk.Driver{
		Kind:         Kind,
		Doc:          "Jobs of a Kubernetes cluster.",
		Config:       configSchema(clouds),
		Options:      optionsSchema(),
		Capabilities: sdk.CapabilitiesOf[*provider](),
		Guarantees:   guarantees(),
		Support:      support(),
		Schemes:      []string{podspec.SchemeKube, podspec.SchemeEnv, podspec.SchemeFile},
		Resources:    resourceTypes(),
		Open: func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
			p, err := open(ctx, r, clouds, budgets)
			if err != nil {
				return nil, err
			}
			return p, nil
		},
	}
}

// guarantees is what the driver gives. A read of the API without a
// resourceVersion is served from a quorum, so that what isn't found isn't there.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list
func guarantees() sdk.Guarantees {
	return sdk.Guarantees{
		Submit:         sdk.SubmitGuarantee{By: sdk.SubmitByName},
		Found:          sdk.FoundGuarantee{Consistent: true},
		Argv:           sdk.ArgvSubstituting,
		ExitCode:       sdk.ExitCodeProcess,
		CancelReadBack: true,
		Grace:          sdk.GraceGuarantee{Supported: true, Min: podspec.MinGrace, Max: podspec.MaxGrace, Default: podspec.DefaultGrace, AtLaunch: true},
		Deadline:       sdk.DeadlineGuarantee{Native: true, Min: time.Second, Max: podspec.MaxTimeout, FromSubmit: true},
		Evidence:       defaultTTL,
		Secrets:        sdk.SecretReference,
		// The runtime keeps lines with a stamp, stdout and stderr in one file.
		// https://kubernetes.io/docs/concepts/cluster-administration/logging/
		Logs: sdk.LogGuarantee{Fidelity: sdk.LogLines, Live: true, Looks: true, EndProven: true,
			Settle: sdk.LogSettle{Quiet: 2 * time.Second, Max: time.Minute}},
		Workload: workload.Guarantees(),
	}
}

func support() []sdk.FieldSupport {
	return []sdk.FieldSupport{
		{Field: "name", Values: "any; it becomes an annotation, and a label fitted to what a label may hold"},
		{Field: "image", Values: "any that the cluster's nodes can pull; required"},
		{Field: "entrypoint", Values: "unset, empty or a list in UTF-8; where it is set, the image's own arguments are dropped, as `docker run` does"},
		{Field: "args", Values: "unset or a list in UTF-8; an empty list needs entrypoint or image_entrypoint"},
		{Field: "image_entrypoint", Values: "used where args is empty and entrypoint unset"},
		{Field: "env", Values: "UTF-8; visible to whoever may read the Job"},
		{Field: "secrets", Values: "k8s is passed on as a reference to a Secret of the namespace; env and file go into a Secret that belongs to the Job"},
		{Field: "workdir", Values: "an absolute path"},
		{Field: "user", Values: "UID or UID:GID"},
		{Field: "cpu", Values: "thousandths of a core; request and limit"},
		{Field: "memory", Values: "bytes; request and limit"},
		{Field: "gpu", Values: "a number of the resource that the option gpu_resource names"},
		{Field: "ephemeral_storage", Values: "bytes; request and limit"},
		{Field: "pids", Refused: "the number of processes is bounded by the kubelet's configuration alone"},
		{Field: "timeout", Values: "up to a year; the pod's own deadline is 1.1 times it, plus the start time-out or 10 minutes"},
		{Field: "start_timeout", Values: "any"},
		{Field: "grace", Values: "2 seconds to a day, in whole seconds; a cancel can't change it"},
		{Field: "retries", Values: "any"},
		{Field: "labels", Values: "labels of the Job and its pod, within Kubernetes' rules for labels"},
		{Field: "network", Refused: "a pod has the cluster's network; the profile strict denies it all traffic"},
		{Field: "mounts", Values: "tmpfs, and volume, which names a PersistentVolumeClaim; no bind"},
		{Field: "files", Refused: "input files aren't offered here; put them into the image, or mount a volume"},
		{Field: "stdin", Refused: "a Job's pod has no input"},
		{Field: "profile", Values: "strict, standard and permissive"},
		{Field: "ttl", Values: "whole seconds; Kubernetes deletes the ended Job after it"},
		{Field: "allow_visible_secret", Values: "not needed: no secret is visible in the Job"},
	}
}

// provider is one namespace of a cluster for jobs, and all of it that the credentials
// show for live workloads.
type provider struct {
	*workload.Workloads
	name     string
	cfg      config
	session  *kube.Session
	budget   *kube.Budget
	looks    *looks // of the readers of logs
	clock    sdk.Clock
	log      *slog.Logger
	secrets  sdk.SecretResolver
	owner    string
	ledgerID string
	identity sdk.Identity
}

var (
	_ sdk.Provider      = (*provider)(nil)
	_ sdk.JobRunner     = (*provider)(nil)
	_ sdk.JobFinder     = (*provider)(nil)
	_ sdk.JobCanceler   = (*provider)(nil)
	_ sdk.JobCleaner    = (*provider)(nil)
	_ sdk.JobLogger     = (*provider)(nil)
	_ sdk.JobBatcher    = (*provider)(nil)
	_ sdk.JobWatcher    = (*provider)(nil)
	_ sdk.OwnedLister   = (*provider)(nil)
	_ sdk.ExpiryRenewer = (*provider)(nil)
)

func open(ctx context.Context, r sdk.OpenRequest, clouds []hosted.Cloud, budgets *kube.Budgets) (*provider, error) {
	r = r.Filled()
	var cfg config
	if err := configSchema(clouds).Decode("config", r.Config, &cfg); err != nil {
		return nil, err
	}
	cfg = cfg.filled()
	if err := cfg.check(r.Name); err != nil {
		return nil, err
	}
	session, err := cfg.connect(ctx, r, clouds)
	if err != nil {
		return nil, err
	}
	p := &provider{name: r.Name, cfg: cfg, session: session, budget: budgets.For(session.Server, cfg.Rate), looks: newLooks(), clock: r.Clock, log: r.Log,
		secrets: r.Secrets, owner: r.Owner, ledgerID: r.LedgerID,
		identity: sdk.Identity{Kind: Kind, Account: session.Authority, Region: session.Namespace, Endpoint: session.Server}}
	p.Workloads = workload.On(workload.Cluster{Kind: Kind, Provider: r.Name, Session: session, Spend: p.spend, Clock: r.Clock, Secrets: r.Secrets,
		Placement: cfg.Placement, Stall: time.Duration(cfg.LogStall)})
	return p, nil
}

// Info implements sdk.Provider.
func (p *provider) Info() sdk.Info {
	return sdk.Info{Name: p.name, Kind: Kind, Identity: p.identity, Guarantees: guarantees(), BatchMax: batchMax,
		Rate: float64(p.cfg.Rate), Burst: 2 * p.cfg.Rate}
}

// Close implements sdk.Provider. Jobs go on.
func (p *provider) Close() error { return p.session.Close() }

// fail makes an error of this provider.
func (p *provider) fail(code sdk.Code, op string, err error) *sdk.Error {
	return &sdk.Error{Code: code, Op: op, Provider: p.name, Err: err}
}

// spend makes a call when the budget allows.
func (p *provider) spend(ctx context.Context, op string, call func() error) error {
	if err := p.budget.Wait(ctx); err != nil {
		return p.fail(sdk.CodeOf(err), op, err)
	}
	err := call()
	if sdk.CodeOf(err) == sdk.ResourceExhausted {
		p.budget.Throttled()
	}
	return err
}

// Package argo runs jobs as Workflows of Argo.
//
// An attempt is one Workflow of one container, whose name follows from the attempt's
// ID, so that a second one is refused however often the launch is sent. It has no
// retries of its own. A cancel terminates it, and the code is what Argo reports of the
// container, absent where it reports none. The Workflow is deleted once its output was
// read.
package argo

import (
	"context"
	"log/slog"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/argo"
	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/sdk"
)

// Kind is the name of this backend.
const Kind = "argo"

// batchMax is the most handles of one JobStatuses call: their IDs stand in a
// selector within the call's address.
const batchMax = 100

// Driver returns the driver. Providers that come of one value share the budget of
// calls to their server.
func Driver() sdk.Driver {
	budgets := &kube.Budgets{}
	return sdk.Driver{
		Kind:         Kind,
		Doc:          "Workflows of Argo, on a Kubernetes cluster.",
		Config:       configSchema(),
		Options:      optionsSchema(),
		Capabilities: sdk.CapabilitiesOf[*provider](),
		Guarantees:   guarantees(),
		Support:      support(),
		Schemes:      []string{podspec.SchemeKube, podspec.SchemeEnv, podspec.SchemeFile},
		Open: func(_ context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
			p, err := open(r, budgets)
			if err != nil {
				return nil, err
			}
			return p, nil
		},
	}
}

// guarantees is what the driver gives. A read of a Workflow by its name is served
// from a quorum, by Argo Server too, so that what isn't found isn't there.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list
func guarantees() sdk.Guarantees {
	return sdk.Guarantees{
		Submit:         sdk.SubmitGuarantee{By: sdk.SubmitByName},
		Found:          sdk.FoundGuarantee{Consistent: true},
		Argv:           sdk.ArgvSubstituting,
		ExitCode:       sdk.ExitCodeProcess,
		CancelReadBack: true,
		Grace:          sdk.GraceGuarantee{Supported: true, Min: podspec.MinGrace, Max: podspec.MaxGrace, Default: podspec.DefaultGrace, AtLaunch: true, Again: true},
		Deadline:       sdk.DeadlineGuarantee{Native: true, Min: time.Second, Max: podspec.MaxTimeout, FromSubmit: true},
		Evidence:       defaultTTL,
		Secrets:        sdk.SecretReference,
		// The runtime keeps lines with a stamp, stdout and stderr in one file.
		// https://kubernetes.io/docs/concepts/cluster-administration/logging/
		Logs: sdk.LogGuarantee{Fidelity: sdk.LogLines, Live: true, Looks: true, EndProven: true,
			Settle: sdk.LogSettle{Quiet: 2 * time.Second, Max: time.Minute}},
	}
}

func support() []sdk.FieldSupport {
	return []sdk.FieldSupport{
		{Field: "name", Values: "any; it becomes an annotation, and a label fitted to what a label may hold"},
		{Field: "image", Values: "any that the cluster's nodes can pull; required"},
		{Field: "entrypoint", Values: "unset, empty or a list in UTF-8; where it is unset, Argo's controller asks the registry for the image's own, unless image_entrypoint says it"},
		{Field: "args", Values: "unset or a list in UTF-8, at most 128 KiB; an empty list needs entrypoint or image_entrypoint"},
		{Field: "image_entrypoint", Values: "used where entrypoint is unset"},
		{Field: "env", Values: "UTF-8; visible to whoever may read the Workflow"},
		{Field: "secrets", Values: "k8s is passed on as a reference to a Secret of the namespace; env and file go into a Secret that belongs to the Workflow, but not through Argo Server"},
		{Field: "workdir", Values: "an absolute path"},
		{Field: "user", Values: "UID or UID:GID"},
		{Field: "cpu", Values: "thousandths of a core; request and limit of the container main"},
		{Field: "memory", Values: "bytes; request and limit of the container main"},
		{Field: "gpu", Values: "a number of the resource that the option gpu_resource names"},
		{Field: "ephemeral_storage", Values: "bytes; request and limit"},
		{Field: "pids", Refused: "the number of processes is bounded by the kubelet's configuration alone"},
		{Field: "timeout", Values: "up to a year; the pod's own deadline is 1.1 times it, plus the start time-out or 10 minutes"},
		{Field: "start_timeout", Values: "any"},
		{Field: "grace", Values: "2 seconds to a day, in whole seconds; a cancel can't change it"},
		{Field: "retries", Values: "any"},
		{Field: "labels", Values: "labels of the Workflow and its pod, within Kubernetes' rules for labels"},
		{Field: "network", Refused: "a pod has the cluster's network, which Argo's own containers in it need"},
		{Field: "mounts", Values: "tmpfs, and volume, which names a PersistentVolumeClaim; no bind"},
		{Field: "files", Refused: "input files aren't offered here; put them into the image, or mount a volume"},
		{Field: "stdin", Refused: "a Workflow's pod has no input"},
		{Field: "profile", Values: "standard and permissive"},
		{Field: "ttl", Values: "whole seconds; Argo deletes the ended Workflow after it"},
		{Field: "allow_visible_secret", Values: "not needed: no secret is visible in the Workflow"},
	}
}

// provider is one namespace of a cluster, or of an Argo Server.
type provider struct {
	name string
	cfg  config
	// session is with the API server, or with Argo Server where server isn't nil.
	session  *kube.Session
	client   argo.Client
	server   *argo.Server
	budget   *kube.Budget
	clock    sdk.Clock
	log      *slog.Logger
	secrets  sdk.SecretResolver
	owner    string
	ledgerID string
	identity sdk.Identity
}

var (
	_ sdk.Provider    = (*provider)(nil)
	_ sdk.JobRunner   = (*provider)(nil)
	_ sdk.JobFinder   = (*provider)(nil)
	_ sdk.JobCanceler = (*provider)(nil)
	_ sdk.JobCleaner  = (*provider)(nil)
	_ sdk.JobLogger   = (*provider)(nil)
	_ sdk.JobBatcher  = (*provider)(nil)
	_ sdk.OwnedLister = (*provider)(nil)
)

func open(r sdk.OpenRequest, budgets *kube.Budgets) (*provider, error) {
	r = r.Filled()
	var cfg config
	if err := configSchema().Decode("config", r.Config, &cfg); err != nil {
		return nil, err
	}
	cfg = cfg.filled()
	if err := cfg.check(r.Name); err != nil {
		return nil, err
	}
	p := &provider{name: r.Name, cfg: cfg, clock: r.Clock, log: r.Log, secrets: r.Secrets, owner: r.Owner, ledgerID: r.LedgerID}
	var err error
	if cfg.Endpoint != "" {
		p.session, err = kube.OpenService(kube.Service{Provider: r.Name, Address: cfg.Endpoint, Token: r.Credentials["ARGO_TOKEN"], CAFile: cfg.CAFile,
			Namespace: cfg.Namespace, CallTimeout: r.CallTimeout, Words: argo.Words})
	} else {
		p.session, err = kube.Open(kube.Settings{Provider: r.Name, File: cfg.Kubeconfig, Context: cfg.Context, Namespace: cfg.Namespace,
			Credentials: r.Credentials, Ambient: r.AmbientCredentials, CallTimeout: r.CallTimeout})
	}
	if err != nil {
		return nil, err
	}
	p.budget = budgets.For(p.session.Server, cfg.Rate)
	if cfg.Endpoint != "" {
		p.server = argo.OnServer(p.session, p.spend)
		p.client = p.server
	} else {
		p.client = argo.OnCluster(p.session, p.spend)
	}
	p.identity = sdk.Identity{Kind: Kind, Account: p.session.Authority, Region: p.session.Namespace, Endpoint: p.session.Server}
	return p, nil
}

// Info implements sdk.Provider. Argo Server sends lines as text within JSON, and tells
// neither whether a log came to its end, nor whether a pod that was told to has.
func (p *provider) Info() sdk.Info {
	g := guarantees()
	if p.server != nil {
		g.Logs.Fidelity, g.Logs.EndProven, g.CancelReadBack = sdk.LogStructured, false, false
	}
	return sdk.Info{Name: p.name, Kind: Kind, Identity: p.identity, Guarantees: g, BatchMax: batchMax,
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

package ecs

import (
	"context"
	"encoding/json"
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/cloud/aws/logtail"
	"github.com/windlass-run/windlass/internal/cloud/aws/secretref"
	"github.com/windlass-run/windlass/internal/driver/ecs/workload"
	"github.com/windlass-run/windlass/sdk"
)

// parameterPrefix is the form of what names of parameters begin with: levels that
// don't begin with what AWS keeps for itself.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/sysman-paramstore-su-create.html
var parameterPrefix = regexp.MustCompile(`^(/[A-Za-z0-9_.-]+){1,10}$`)

// services makes the live half of the provider.
func (p *provider) services(shared *logtail.Account) *workload.Services {
	return workload.New(workload.Options{
		Provider: p.name, Session: p.session, ECS: p.ecs, Logs: p.logs, Clock: p.clock, Owner: p.owner, LedgerID: p.ledgerID,
		Reads: p.reads, LogReads: p.logReads,
		ServiceReads: shared.Budgets.For(p.session, "ecs service read", float64(p.cfg.ServiceRate), 2*p.cfg.ServiceRate),
		Place:        p.servicePlacement,
		Secrets: func(ctx context.Context, refs map[string]sdk.SecretRef, bad secretref.ProblemFunc) (map[string]string, error) {
			plan, err := p.secrets.Plan(ctx, sdk.JobSpec{Secrets: refs}, bad)
			return plan.From, err
		},
		ConfigPrefix: p.cfg.ConfigPrefix, ExecShell: p.cfg.ExecShell, MetricInterval: time.Duration(p.cfg.MetricInterval),
	})
}

// servicePlacement is where the tasks of a service go: its options over the config.
func (p *provider) servicePlacement(raw json.RawMessage) (workload.Placement, error) {
	var o options
	if len(raw) > 0 {
		if err := optionsSchema().Decode("options", raw, &o); err != nil {
			return workload.Placement{}, err
		}
	}
	at := p.cfg.placement.with(o.placement)
	w := workload.Placement{Fargate: at.LaunchType == launchFargate, Subnets: at.Subnets, SecurityGroups: at.SecurityGroups, PublicIP: at.AssignPublicIP != nil && *at.AssignPublicIP,
		ExecutionRole: at.ExecutionRole, TaskRole: at.TaskRole, PlatformVersion: at.PlatformVersion, Architecture: at.Architecture, Tags: at.Tags,
		LogOptions: p.logOptions(p.session)}
	for _, c := range at.CapacityProviders {
		weight := c.Weight
		if weight == 0 && c.Base == 0 {
			weight = 1
		}
		w.CapacityProviders = append(w.CapacityProviders, types.CapacityProviderStrategyItem{CapacityProvider: &c.Name, Weight: weight, Base: c.Base})
	}
	return w, nil
}

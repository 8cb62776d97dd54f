package cloudrun

import (
	"context"
	"fmt"
	"slices"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/logging/apiv2/loggingpb"
	"cloud.google.com/go/run/apiv2/runpb"

	"github.com/windlass-run/windlass/sdk"
)

const opCheck = "check"

// probe is a job that doesn't exist: no call that names it can change anything.
const probe = jobPrefix + "check"

// right is a permission that the driver needs, and a call that would show its
// lack.
type right struct {
	permission string
	probe      func(ctx context.Context) error
}

// Check implements sdk.Provider. It has IAM tell which permissions there are.
// For a resource that isn't there IAM may know of none, so each that it leaves
// out is tried with a call that changes nothing: a refusal for rights is told from
// one for the thing. What the job's own service account may do can't be seen.
// https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.jobs/testIamPermissions
func (p *provider) Check(ctx context.Context, _ sdk.CheckRequest) (sdk.CheckResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CheckResult{}, p.fail(sdk.CodeOf(err), opCheck, err)
	}
	var res sdk.CheckResult
	add := func(permission string, err error) {
		if err == nil {
			res.Items = append(res.Items, sdk.CheckItem{Name: permission, OK: true, Detail: "allowed"})
			return
		}
		res.Items = append(res.Items, sdk.CheckItem{Name: permission, Detail: oneLine(err.Error()),
			Remedy: "allow " + permission + " in the project " + p.session.Project + "; docs/drivers/gcp-cloudrun.md has the roles"})
	}
	// A list proves reach and credentials, and that project and region are there.
	err := p.session.Call(ctx, opCheck, func(ctx context.Context) error {
		_, err := p.jobs.ListJobs(ctx, &runpb.ListJobsRequest{Parent: p.session.Location(), PageSize: 1})
		return err
	})
	if err != nil && sdk.CodeOf(err) != sdk.PermissionDenied {
		return res, err
	}
	add("run.jobs.list", err)
	rights := p.rights()
	ask := &iampb.TestIamPermissionsRequest{Resource: p.jobName(probe)}
	for _, r := range rights {
		ask.Permissions = append(ask.Permissions, r.permission)
	}
	var granted []string
	err = p.session.Call(ctx, opCheck, func(ctx context.Context) error {
		out, err := p.jobs.TestIamPermissions(ctx, ask)
		granted = out.GetPermissions()
		return err
	})
	if err != nil && !sdk.IsClear(err) {
		return res, err
	}
	for _, r := range rights {
		if slices.Contains(granted, r.permission) {
			add(r.permission, nil)
			continue
		}
		if err := p.try(ctx, r, add); err != nil {
			return res, err
		}
	}
	return res, p.try(ctx, right{"logging.logEntries.list", func(ctx context.Context) error {
		_, err := p.logs.ListLogEntries(ctx, &loggingpb.ListLogEntriesRequest{ResourceNames: []string{"projects/" + p.session.Project}, PageSize: 1,
			Filter: fmt.Sprintf(`labels."run.googleapis.com/execution_name"=%q AND timestamp>="2100-01-01T00:00:00Z"`, executionID(probe))})
		return err
	}}, add)
}

// try makes a probe's call.
func (p *provider) try(ctx context.Context, r right, add func(permission string, err error)) error {
	err := p.session.Call(ctx, opCheck, r.probe)
	switch sdk.CodeOf(err) {
	case sdk.PermissionDenied:
		add(r.permission, err)
	case 0, sdk.InvalidArgument, sdk.NotFound, sdk.FailedPrecondition, sdk.Aborted, sdk.AlreadyExists, sdk.ResourceExhausted:
		add(r.permission, nil)
	default:
		return err
	}
	return nil
}

// rights are the permissions of Cloud Run that the driver needs.
// https://cloud.google.com/run/docs/reference/iam/permissions
func (p *provider) rights() []right {
	job := p.jobName(probe)
	execution := job + "/executions/" + executionID(probe)
	return []right{
		{"run.jobs.create", func(ctx context.Context) error {
			// A job needs a template.
			_, err := p.jobs.CreateJob(ctx, &runpb.CreateJobRequest{Parent: p.session.Location(), JobId: probe, Job: &runpb.Job{}, ValidateOnly: true})
			return err
		}},
		{"run.jobs.run", func(ctx context.Context) error {
			_, err := p.jobs.RunJob(ctx, &runpb.RunJobRequest{Name: job, ValidateOnly: true})
			return err
		}},
		{"run.jobs.get", func(ctx context.Context) error {
			_, err := p.jobs.GetJob(ctx, &runpb.GetJobRequest{Name: job})
			return err
		}},
		{"run.jobs.delete", func(ctx context.Context) error {
			_, err := p.jobs.DeleteJob(ctx, &runpb.DeleteJobRequest{Name: job, ValidateOnly: true})
			return err
		}},
		{"run.executions.get", func(ctx context.Context) error {
			_, err := p.executions.GetExecution(ctx, &runpb.GetExecutionRequest{Name: execution})
			return err
		}},
		{"run.executions.list", func(ctx context.Context) error {
			_, err := p.executions.ListExecutions(ctx, &runpb.ListExecutionsRequest{Parent: job, PageSize: 1})
			return err
		}},
		{"run.executions.cancel", func(ctx context.Context) error {
			_, err := p.executions.CancelExecution(ctx, &runpb.CancelExecutionRequest{Name: execution, ValidateOnly: true})
			return err
		}},
		{"run.tasks.list", func(ctx context.Context) error {
			_, err := p.tasks.ListTasks(ctx, &runpb.ListTasksRequest{Parent: execution, PageSize: 1})
			return err
		}},
	}
}

package ecs

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

// The members of a handle's metadata.
const (
	keyCluster    = "cluster"
	keyDefinition = "definition"
	keyContainer  = "container"
	keyLogGroup   = "log_group"
	keyLogStream  = "log_stream"
	keySent       = "sent"
)

// place is where a task and its output are.
type place struct{ cluster, group, prefix string }

// handle is enough for any machine: it names the task, and where its log is.
func (p *provider) handle(t types.Task, where place, sent time.Time) sdk.JobHandle {
	arn := str(t.TaskArn)
	return sdk.JobHandle{V: sdk.HandleVersion, Kind: Kind, Identity: p.identity, ID: arn, Name: taskID(arn), Metadata: map[string]string{
		keyCluster: where.cluster, keyDefinition: str(t.TaskDefinitionArn), keyContainer: containerName,
		keyLogGroup: where.group, keyLogStream: where.prefix + "/" + containerName + "/" + taskID(arn), keySent: itoa(sent.Unix()),
	}}
}

// taskID returns the last part of a task's ARN, which its log stream bears.
func taskID(arn string) string { return arn[strings.LastIndexByte(arn, '/')+1:] }

// checkHandle refuses a handle of another provider, and one that can't be ours.
func (p *provider) checkHandle(op string, h sdk.JobHandle) error {
	if err := h.Check(op, p.identity); err != nil {
		return err
	}
	if a, ok := aws.ParseARN(h.ID); !ok || a.Service != "ecs" || h.Metadata[keyCluster] == "" {
		return p.fail(sdk.InvalidArgument, op, fmt.Errorf("%q is no handle of a task", h.ID))
	}
	return nil
}

// young reports whether a task may still not be visible: ECS is eventually
// consistent.
func (p *provider) young(h sdk.JobHandle) bool {
	n, err := strconv.ParseInt(h.Metadata[keySent], 10, 64)
	if err != nil {
		return false
	}
	age := p.clock.Now().Sub(time.Unix(n, 0))
	// A clock that was set back makes a task of the future, which is young.
	return age < time.Duration(p.cfg.MissingGrace)
}

// groupOf is a task's group, which keeps the attempt's ID and number where
// StopTask deletes the tags.
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_StopTask.html
func groupOf(attempt sdk.ID, number int) string {
	return fmt.Sprintf("windlass:%s:%d", attempt, number)
}

// readGroup reads what groupOf wrote.
func readGroup(group string) (attempt sdk.ID, number int, ok bool) {
	rest, ok := strings.CutPrefix(group, "windlass:")
	id, n, more := strings.Cut(rest, ":")
	if !ok || !more {
		return sdk.ID{}, 0, false
	}
	attempt, err := sdk.ParseID(id)
	if err != nil {
		return sdk.ID{}, 0, false
	}
	number, err = strconv.Atoi(n)
	return attempt, number, err == nil && number > 0
}

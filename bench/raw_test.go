package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
)

// raw is what a program does that calls ECS by the vendor's client and keeps
// nothing: no ledger, no state, no output.
type raw struct {
	ecs  *ecs.Client
	logs *cloudwatchlogs.Client
}

func newRaw(url string) *raw {
	c := awssdk.Config{Region: pocket.Region, BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("pocket", "pocket", "")}
	return &raw{ecs: ecs.NewFromConfig(c), logs: cloudwatchlogs.NewFromConfig(c)}
}

// define registers the definition that all tasks use.
func (r *raw) define(b *testing.B) {
	b.Helper()
	role := "arn:aws:iam::" + pocket.Account + ":role/execution"
	_, err := r.ecs.RegisterTaskDefinition(b.Context(), &ecs.RegisterTaskDefinitionInput{Family: new("raw"), Cpu: new("256"), Memory: new("512"), NetworkMode: types.NetworkModeAwsvpc,
		RequiresCompatibilities: []types.Compatibility{types.CompatibilityFargate}, ExecutionRoleArn: &role,
		ContainerDefinitions: []types.ContainerDefinition{{Name: new("main"), Image: new("img"), Essential: new(true)}}})
	if err != nil {
		b.Fatal(err)
	}
}

// run submits tasks, so many at a time, and looks at a hundred by one call every
// interval until all have stopped.
func (r *raw) run(b *testing.B, tasks, together int, interval time.Duration) time.Duration {
	b.Helper()
	begun := time.Now()
	arns := make(chan string, tasks)
	slots := make(chan struct{}, together)
	var wg sync.WaitGroup
	for n := range tasks {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			out, err := r.ecs.RunTask(b.Context(), &ecs.RunTaskInput{TaskDefinition: new("raw"), LaunchType: types.LaunchTypeFargate, ClientToken: new(fmt.Sprint(begun.UnixNano(), "-", n)),
				NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{Subnets: []string{"subnet-0123456789abcdef0"}}},
				Overrides:            &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{{Name: new("main"), Command: []string{"hello", fmt.Sprint(n)}}}}})
			if err != nil || len(out.Tasks) != 1 {
				b.Errorf("run: %v", err)
				return
			}
			arns <- *out.Tasks[0].TaskArn
		})
	}
	go func() {
		wg.Wait()
		close(arns)
	}()
	if err := r.await(b.Context(), arns, interval); err != nil {
		b.Error(err)
	}
	return time.Since(begun)
}

// await looks at tasks until all have stopped that come.
func (r *raw) await(ctx context.Context, arns <-chan string, interval time.Duration) error {
	open := map[string]bool{}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for more := true; more || len(open) > 0; {
		select {
		case arn, ok := <-arns:
			if !ok {
				more, arns = false, nil
				continue
			}
			open[arn] = true
			continue
		case <-tick.C:
		}
		var batch []string
		look := func() error {
			out, err := r.ecs.DescribeTasks(ctx, &ecs.DescribeTasksInput{Tasks: batch})
			if err != nil {
				return err
			}
			for _, t := range out.Tasks {
				if *t.LastStatus == "STOPPED" {
					delete(open, *t.TaskArn)
				}
			}
			batch = nil
			return nil
		}
		for arn := range open {
			if batch = append(batch, arn); len(batch) == 100 {
				if err := look(); err != nil {
					return err
				}
			}
		}
		if len(batch) > 0 {
			if err := look(); err != nil {
				return err
			}
		}
	}
	return nil
}

// read reads a stream to its end, and returns its lines and bytes.
func (r *raw) read(b *testing.B, group, stream string) (lines int, size int64) {
	b.Helper()
	in := &cloudwatchlogs.GetLogEventsInput{LogGroupName: &group, LogStreamName: &stream, StartFromHead: new(true)}
	for {
		out, err := r.logs.GetLogEvents(b.Context(), in)
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range out.Events {
			lines, size = lines+1, size+int64(len(*e.Message))
		}
		if in.NextToken != nil && *in.NextToken == *out.NextForwardToken {
			return lines, size
		}
		in.NextToken = out.NextForwardToken
	}
}

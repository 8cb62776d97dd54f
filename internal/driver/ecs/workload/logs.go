package workload

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/sdk"
)

const opLogs = "read log of service"

const (
	// lookFirst and lookLast bound the pause between two looks at streams of which
	// nothing comes: the log driver sends what it has every five seconds.
	lookFirst, lookLast = 200 * time.Millisecond, 3 * time.Second
	// tasksEvery is how often new tasks are looked for while following.
	tasksEvery = 3 * time.Second
	// tailMost is the most events of one call.
	// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_GetLogEvents.html
	tailMost = 10_000
	// cutEvent is the size in bytes from which the log driver cuts a line in two.
	// https://docs.docker.com/engine/logging/drivers/awslogs/
	cutEvent = 262_118
)

// TailLogs implements sdk.LogTailer. Each task has a stream of its own, which the
// definition that it was started from names.
func (s *Services) TailLogs(ctx context.Context, r sdk.TailLogsRequest) iter.Seq2[sdk.WorkloadLogItem, error] {
	return func(yield func(sdk.WorkloadLogItem, error) bool) {
		a, err := s.address(opLogs, r.Path)
		if err == nil {
			t := &tail{s: s, a: a, r: r, streams: map[string]*stream{}, yield: yield}
			err = t.run(ctx)
		}
		if err != nil && !errors.Is(err, errLeft) {
			yield(sdk.WorkloadLogItem{}, err)
		}
	}
}

// errLeft says that nobody reads any more.
var errLeft = errors.New("the reader has left")

// tail reads the streams of a service's tasks.
type tail struct {
	s     *Services
	a     address
	r     sdk.TailLogsRequest
	yield func(sdk.WorkloadLogItem, error) bool

	streams map[string]*stream // by task
	order   []*stream
}

// stream is the output of one task.
type stream struct {
	task, group, name string
	token             *string
	// late: it was found while following, so that all of it is new.
	late bool
	// over: the task has stopped, and its stream was read to the end since.
	stopped, over bool
}

func (t *tail) run(ctx context.Context) error {
	if err := t.find(ctx, false); err != nil {
		return err
	}
	if t.r.Instance != "" && len(t.order) == 0 {
		e := t.s.fail(sdk.NotFound, opLogs, fmt.Errorf("%s has no task %s; ECS forgets a task an hour after its end", t.r.Path, t.r.Instance))
		e.Remedy = "`windlass svc status` lists its tasks"
		return e
	}
	found, pause := time.Now(), lookFirst
	for {
		some, err := t.round(ctx)
		if err != nil || !t.r.Follow {
			return err
		}
		if pause = min(2*pause, lookLast); some {
			pause = lookFirst
		}
		if err := t.s.o.Clock.Sleep(ctx, pause); err != nil {
			return t.s.fail(sdk.CodeOf(err), opLogs, err)
		}
		if time.Since(found) >= min(tasksEvery, 4*pause) {
			found = time.Now()
			if err := t.find(ctx, true); err != nil && ctx.Err() == nil && !sdk.IsClear(err) {
				continue // ECS doesn't answer: what is known is read on
			} else if err != nil {
				return err
			}
		}
	}
}

// find adds the streams of tasks that aren't known yet.
func (t *tail) find(ctx context.Context, late bool) error {
	v, err := t.s.describe(ctx, opLogs, t.a)
	if err != nil {
		return err
	}
	if v == nil {
		return t.s.absent(opLogs, t.a)
	}
	tasks, err := t.s.tasks(ctx, opLogs, t.a)
	if err != nil {
		return err
	}
	for _, task := range tasks {
		id := lastPart(str(task.TaskArn))
		if t.r.Instance != "" && id != t.r.Instance {
			continue
		}
		st := t.streams[id]
		if st == nil {
			if st, err = t.s.streamOf(ctx, task); err != nil {
				return err
			}
			st.late = late
			t.streams[id] = st
			t.order = append(t.order, st)
		}
		st.stopped = str(task.LastStatus) == taskStopped
	}
	return nil
}

// streamOf says where a task's output goes.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/specify-log-config.html
func (s *Services) streamOf(ctx context.Context, task types.Task) (*stream, error) {
	d, err := s.definition(ctx, opLogs, str(task.TaskDefinitionArn))
	if err != nil {
		return nil, err
	}
	c := d.ContainerDefinitions[d.main()]
	l := c.LogConfiguration
	if l == nil || l.LogDriver != types.LogDriverAwslogs || l.Options["awslogs-stream-prefix"] == "" {
		e := s.fail(sdk.FailedPrecondition, opLogs, fmt.Errorf("the container %s doesn't send its output to CloudWatch under names that are known", str(c.Name)))
		e.Remedy = "give its log configuration the driver awslogs with awslogs-group and awslogs-stream-prefix"
		return nil, e
	}
	id := lastPart(str(task.TaskArn))
	return &stream{task: id, group: l.Options["awslogs-group"], name: l.Options["awslogs-stream-prefix"] + "/" + str(c.Name) + "/" + id}, nil
}

// round reads what is new of every stream, and reports whether something was.
func (t *tail) round(ctx context.Context) (some bool, err error) {
	if n := t.r.Tail; n != nil && *n == 0 && !t.r.Follow {
		return false, nil
	}
	for _, st := range t.order {
		if st.over {
			continue
		}
		stopped := st.stopped // as it was before the read
		got, err := t.read(ctx, st)
		if err != nil {
			return some, err
		}
		some = some || got
		st.over = stopped && !got && st.token != nil
	}
	return some, nil
}

// read reads a stream to its end.
func (t *tail) read(ctx context.Context, st *stream) (some bool, err error) {
	for {
		in := &cloudwatchlogs.GetLogEventsInput{LogGroupName: &st.group, LogStreamName: &st.name, NextToken: st.token, StartFromHead: new(true)}
		last := st.token == nil && t.r.Tail != nil && !st.late
		if last {
			// The last events come first; the token goes on behind them.
			in.StartFromHead, in.Limit = new(false), new(int32(min(max(*t.r.Tail, 1), tailMost)))
		}
		if !t.r.Since.IsZero() {
			in.StartTime = new(t.r.Since.UnixMilli())
		}
		out, err := t.s.events(ctx, in)
		if sdk.CodeOf(err) == sdk.NotFound {
			return some, nil // nothing was written yet
		}
		if err != nil {
			return some, err
		}
		events := out.Events
		if last && *t.r.Tail == 0 {
			events = nil
		}
		for _, e := range events {
			some = true
			if !t.yield(sdk.WorkloadLogItem{Instance: st.task, Entry: entry(e)}, nil) {
				return some, errLeft
			}
		}
		end := str(out.NextForwardToken) == str(st.token)
		st.token = out.NextForwardToken
		if end || last && len(out.Events) < tailMost {
			return some, nil
		}
	}
}

// events makes one call of GetLogEvents.
func (s *Services) events(ctx context.Context, in *cloudwatchlogs.GetLogEventsInput) (out *cloudwatchlogs.GetLogEventsOutput, err error) {
	err = s.o.Session.Paced(ctx, s.o.LogReads, opLogs, func(ctx context.Context) (err error) {
		out, err = s.o.Logs.GetLogEvents(ctx, in)
		return err
	})
	if err == nil && out.NextForwardToken == nil {
		err = s.fail(sdk.Unavailable, opLogs, errors.New("CloudWatch gave no token"))
	}
	return out, err
}

// entry is an event as output. The log driver sends lines, both streams as one.
func entry(e logs.OutputLogEvent) *sdk.LogChunk {
	c := &sdk.LogChunk{Stream: sdk.StreamCombined, Data: []byte(str(e.Message)), LineEnd: sdk.LineEndStripped}
	if e.Timestamp != nil {
		c.Time = time.UnixMilli(*e.Timestamp).UTC()
	}
	if len(c.Data) >= cutEvent {
		c.LineEnd = sdk.LineEndKept // what follows goes on with the line
	}
	return c
}

package gcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/run/apiv2/runpb"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/windlass-run/windlass/internal/testwait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long is how long a test waits for what takes milliseconds.
const long = 30 * time.Second

const parent = "projects/" + Project + "/locations/" + Location

// cloud is a pocket cloud with a client for each service.
type cloud struct {
	*Server
	url     string
	conn    *grpc.ClientConn
	jobs    runpb.JobsClient
	execs   runpb.ExecutionsClient
	tasks   runpb.TasksClient
	ops     longrunningpb.OperationsClient
	logs    loggingpb.LoggingServiceV2Client
	secrets secretmanagerpb.SecretManagerServiceClient
	web     *http.Client
}

func newCloud(t testing.TB, o Options) *cloud {
	t.Helper()
	o.Record = true
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	address, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return invoke(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+o.Token), method, request, reply, conn, opts...)
		}))
	if err != nil {
		t.Fatal(err)
	}
	c := &cloud{Server: s, url: "http://" + address, conn: conn, jobs: runpb.NewJobsClient(conn), execs: runpb.NewExecutionsClient(conn), tasks: runpb.NewTasksClient(conn),
		ops: longrunningpb.NewOperationsClient(conn), logs: loggingpb.NewLoggingServiceV2Client(conn), secrets: secretmanagerpb.NewSecretManagerServiceClient(conn),
		web: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() {
		c.web.CloseIdleConnections()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// jobOf is a job of one task that runs a command.
func jobOf(argv ...string) *runpb.Job {
	return &runpb.Job{Template: &runpb.ExecutionTemplate{Template: &runpb.TaskTemplate{
		Retries:    &runpb.TaskTemplate_MaxRetries{},
		Containers: []*runpb.Container{{Image: "app", Command: argv[:1], Args: argv[1:]}},
	}}}
}

// create makes a job and waits until it is ready.
func (c *cloud) create(t testing.TB, id string, j *runpb.Job) *runpb.Job {
	t.Helper()
	op, err := c.jobs.CreateJob(t.Context(), &runpb.CreateJobRequest{Parent: parent, JobId: id, Job: j})
	if err != nil {
		t.Fatal(err)
	}
	out := &runpb.Job{}
	c.result(t, op, out)
	return out
}

// start runs a job, and returns the execution as the operation shows it at once.
func (c *cloud) start(t testing.TB, id string, o *runpb.RunJobRequest_Overrides) (*longrunningpb.Operation, *runpb.Execution) {
	t.Helper()
	op, err := c.jobs.RunJob(t.Context(), &runpb.RunJobRequest{Name: parent + "/jobs/" + id, Overrides: o})
	if err != nil {
		t.Fatal(err)
	}
	e := &runpb.Execution{}
	if err := op.Metadata.UnmarshalTo(e); err != nil {
		t.Fatal(err)
	}
	return op, e
}

// done waits for an operation's end.
func (c *cloud) done(t testing.TB, op *longrunningpb.Operation) *longrunningpb.Operation {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	for !op.Done {
		var err error
		if op, err = c.ops.WaitOperation(ctx, &longrunningpb.WaitOperationRequest{Name: op.Name}); err != nil {
			t.Fatal(err)
		}
	}
	return op
}

// result waits for an operation's success.
func (c *cloud) result(t testing.TB, op *longrunningpb.Operation, into proto.Message) {
	t.Helper()
	op = c.done(t, op)
	if op.GetError() != nil {
		t.Fatalf("operation failed: %v", op.GetError())
	}
	if err := op.GetResponse().UnmarshalTo(into); err != nil {
		t.Fatal(err)
	}
}

// ended runs a job to its end.
func (c *cloud) ended(t testing.TB, id string, o *runpb.RunJobRequest_Overrides) *runpb.Execution {
	t.Helper()
	op, e := c.start(t, id, o)
	c.done(t, op)
	return c.execution(t, e.Name)
}

func (c *cloud) execution(t testing.TB, name string) *runpb.Execution {
	t.Helper()
	e, err := c.execs.GetExecution(t.Context(), &runpb.GetExecutionRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// until waits for an execution to be as told.
func (c *cloud) until(t testing.TB, name, what string, is func(*runpb.Execution) bool) *runpb.Execution {
	t.Helper()
	var e *runpb.Execution
	testwait.Until(t, long, what, func() bool {
		e = c.execution(t, name)
		return is(e)
	})
	return e
}

// condition returns a condition of a list.
func conditionOf(list []*runpb.Condition, kind string) *runpb.Condition {
	if i := slices.IndexFunc(list, func(c *runpb.Condition) bool { return c.Type == kind }); i >= 0 {
		return list[i]
	}
	return &runpb.Condition{}
}

// entries reads all entries that match a filter.
func (c *cloud) entries(t testing.TB, filter string) []*loggingpb.LogEntry {
	t.Helper()
	var out []*loggingpb.LogEntry
	r := &loggingpb.ListLogEntriesRequest{ResourceNames: []string{"projects/" + Project}, Filter: filter, PageSize: 1000}
	for {
		page, err := c.logs.ListLogEntries(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, page.Entries...)
		if page.NextPageToken == "" {
			return out
		}
		r.PageToken = page.NextPageToken
	}
}

// output is what an execution wrote, by log.
func (c *cloud) output(t testing.TB, e *runpb.Execution, log string) string {
	t.Helper()
	var b strings.Builder
	for _, entry := range c.entries(t, `labels."run.googleapis.com/execution_name"="`+short(e.Name)+`" AND log_id("run.googleapis.com/`+log+`")`) {
		b.WriteString(entry.GetTextPayload() + "\n")
	}
	return b.String()
}

// short is the last part of a name.
func short(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// doc is a JSON object.
type doc = map[string]any

// rest calls a REST method.
func (c *cloud) rest(t testing.TB, method, path string, body any) (status int, header http.Header, reply doc) {
	t.Helper()
	var in io.Reader = http.NoBody
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		in = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, c.url+path, in)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.web.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &reply); err != nil {
		t.Fatalf("%s %s: %d: %v: %s", method, path, resp.StatusCode, err, data)
	}
	return resp.StatusCode, resp.Header, reply
}

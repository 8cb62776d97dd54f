package aws

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"

	pocket "github.com/windlass-run/windlass/internal/pocket/ecs"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// clock is one that a test sets.
type clock struct{ offset atomic.Int64 }

func (c *clock) Now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

func (c *clock) Add(d time.Duration) { c.offset.Add(int64(d)) }

// code is the error code of a refusal.
func code(err error) string {
	var e smithy.APIError
	if !errors.As(err, &e) {
		return ""
	}
	return e.ErrorCode()
}

func (c *cloud) list(t testing.TB, in *ecs.ListTasksInput) []string {
	t.Helper()
	var all []string
	for {
		out, err := c.ecs.ListTasks(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, out.TaskArns...)
		if out.NextToken == nil {
			return all
		}
		in.NextToken = out.NextToken
	}
}

// TestF3Consistency hides a new task, a new revision, and its containers for a while.
func TestF3Consistency(t *testing.T) {
	now := &clock{}
	c := newCloud(t, Options{Now: now.Now, AnyClock: true})
	def := c.register(t, definition("hidden", "sleep", "60"))
	c.ECS().SetKnobs(pocket.Knobs{DescribeDelay: time.Minute, ListDelay: 2 * time.Minute, ContainersDelay: 3 * time.Minute, DefinitionDelay: time.Minute})
	in := onFargate(def)
	in.StartedBy = sdk.String("me")
	arn := *c.run(t, in).TaskArn
	got := func() (described, listed, contained bool) {
		out, err := c.ecs.DescribeTasks(t.Context(), &ecs.DescribeTasksInput{Tasks: []string{arn}})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Failures) > 0 && *out.Failures[0].Reason != "MISSING" {
			t.Errorf("failure %s", *out.Failures[0].Reason)
		}
		return len(out.Tasks) > 0, len(c.list(t, &ecs.ListTasksInput{StartedBy: in.StartedBy})) > 0, len(out.Tasks) > 0 && len(out.Tasks[0].Containers) > 0
	}
	for _, k := range []struct {
		after                     time.Duration
		described, listed, filled bool
	}{{0, false, false, false}, {time.Minute, true, false, false}, {time.Minute, true, true, false}} {
		now.Add(k.after)
		if d, l, f := got(); d != k.described || l != k.listed || f != k.filled {
			t.Errorf("described %t, listed %t, with containers %t; want %t, %t, %t", d, l, f, k.described, k.listed, k.filled)
		}
	}
	now.Add(time.Minute)
	if task := c.until(t, arn, "RUNNING"); len(task.Containers) != 1 {
		t.Errorf("%d containers", len(task.Containers))
	}
	second := c.register(t, definition("hidden", "true"))
	if _, err := c.ecs.RunTask(t.Context(), onFargate(second)); code(err) != "ClientException" {
		t.Errorf("a revision is found at once: %v", err)
	}
	now.Add(time.Minute)
	c.run(t, onFargate(second))
}

// TestStale shows tasks as they were a while ago, but to the call that changes them.
func TestStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newQuietCloud(t, Options{Executor: run.NewScripted(func(run.Spec) run.Play { return run.Play{For: -1} }), LogGroups: []string{"jobs"}})
		const stale = time.Minute
		c.ECS().TuneKnobs(func(k *pocket.Knobs) { k.Stale = stale })
		arn := c.run(t, onFargate(c.register(t, definition("stale")))).TaskArn
		time.Sleep(stale / 2)
		if got := c.describe(t, *arn); *got.LastStatus != "PROVISIONING" {
			t.Errorf("half a minute after its start it is %s", *got.LastStatus)
		}
		time.Sleep(stale)
		if got := c.describe(t, *arn); *got.LastStatus != "RUNNING" {
			t.Errorf("later it is %s", *got.LastStatus)
		}
		out, err := c.ecs.StopTask(t.Context(), &ecs.StopTaskInput{Task: arn})
		if err != nil || *out.Task.DesiredStatus != "STOPPED" {
			t.Errorf("StopTask shows %v, %v", out, err)
		}
		time.Sleep(stale / 2)
		if got := c.describe(t, *arn); *got.LastStatus != "RUNNING" || *got.DesiredStatus != "RUNNING" || got.StopCode != "" {
			t.Errorf("half a minute after StopTask it is %s, to be %s", *got.LastStatus, *got.DesiredStatus)
		}
		time.Sleep(stale)
		if got := c.describe(t, *arn); *got.LastStatus != "STOPPED" {
			t.Errorf("in the end it is %s", *got.LastStatus)
		}
	})
}

// TestToken replays RunTask within the token's life, and no longer.
func TestToken(t *testing.T) {
	now := &clock{}
	c := newCloud(t, Options{Now: now.Now, AnyClock: true, Clusters: []string{"other"}})
	def := c.register(t, definition("token", "true"))
	in := func(token string) *ecs.RunTaskInput {
		in := onFargate(def)
		in.ClientToken, in.StartedBy = &token, sdk.String("me")
		return in
	}
	first := *c.run(t, in("a")).TaskArn
	if again := *c.run(t, in("a")).TaskArn; again != first {
		t.Errorf("the same call made another task, %s after %s", again, first)
	}
	other := in("a")
	other.StartedBy = sdk.String("you")
	_, err := c.ecs.RunTask(t.Context(), other)
	var conflict *types.ConflictException
	if !errors.As(err, &conflict) || len(conflict.ResourceIds) != 1 || conflict.ResourceIds[0] != first {
		t.Errorf("other parameters: %v", err)
	}
	elsewhere := in("a")
	elsewhere.Cluster = sdk.String("other")
	if got := *c.run(t, elsewhere).TaskArn; got == first {
		t.Error("another cluster replays")
	}
	c.until(t, first, "STOPPED")
	if again := *c.run(t, in("a")).TaskArn; again != first {
		t.Error("a stopped task isn't replayed within the hour")
	}
	now.Add(time.Hour + time.Second)
	if again := *c.run(t, in("a")).TaskArn; again == first {
		t.Error("a task is replayed an hour after it stopped")
	}
	c.ECS().SetKnobs(pocket.Knobs{Pace: pocket.Pace{Provisioning: time.Hour}})
	long := *c.run(t, in("b")).TaskArn
	now.Add(24*time.Hour - time.Second)
	if again := *c.run(t, in("b")).TaskArn; again != long {
		t.Error("a task isn't replayed within a day")
	}
	now.Add(2 * time.Second)
	if again := *c.run(t, in("b")).TaskArn; again == long {
		t.Error("a task is replayed after a day")
	}
}

// TestF12Listing finds running and stopped tasks, page by page, until the hour
// of the stopped ones has passed.
func TestF12Listing(t *testing.T) {
	now := &clock{}
	c := newCloud(t, Options{Now: now.Now, AnyClock: true})
	c.ECS().SetKnobs(pocket.Knobs{PageSize: 2})
	def := c.register(t, definition("listed", "true"))
	var arns []string
	for range 5 {
		in := onFargate(def)
		in.StartedBy = sdk.String("me")
		arns = append(arns, *c.run(t, in).TaskArn)
	}
	for _, arn := range arns {
		c.until(t, arn, "STOPPED")
	}
	if got := c.list(t, &ecs.ListTasksInput{StartedBy: sdk.String("me")}); len(got) != 0 {
		t.Errorf("startedBy alone lists stopped tasks: %v", got)
	}
	if got := c.list(t, &ecs.ListTasksInput{Family: sdk.String("listed"), DesiredStatus: types.DesiredStatusStopped}); strings.Join(got, " ") != strings.Join(arns, " ") {
		t.Errorf("listed %v, want %v", got, arns)
	}
	if got := c.list(t, &ecs.ListTasksInput{DesiredStatus: types.DesiredStatusPending}); len(got) != 0 {
		t.Errorf("tasks are to be PENDING: %v", got)
	}
	now.Add(time.Hour + time.Second)
	out, err := c.ecs.DescribeTasks(t.Context(), &ecs.DescribeTasksInput{Tasks: arns})
	if err != nil || len(out.Tasks) != 0 || len(out.Failures) != 5 {
		t.Errorf("after an hour: %d tasks, %d failures, %v", len(out.Tasks), len(out.Failures), err)
	}
}

// TestForget drops stopped tasks at once, and no others.
func TestForget(t *testing.T) {
	c := newCloud(t, Options{})
	ended := *c.run(t, onFargate(c.register(t, definition("ended", "true")))).TaskArn
	c.until(t, ended, "STOPPED")
	runs := *c.run(t, onFargate(c.register(t, definition("runs", "sleep", "60")))).TaskArn
	c.ECS().Forget()
	out, err := c.ecs.DescribeTasks(t.Context(), &ecs.DescribeTasksInput{Tasks: []string{ended, runs}})
	if err != nil || len(out.Tasks) != 1 || *out.Tasks[0].TaskArn != runs {
		t.Errorf("%d tasks, %v", len(out.Tasks), err)
	}
}

// TestF1Failures answers 200 with failures, then places the task.
func TestF1Failures(t *testing.T) {
	c := newCloud(t, Options{})
	def := c.register(t, definition("failures", "true"))
	want := []string{pocket.Capacity, "RESOURCE:MEMORY", "AGENT"}
	c.ECS().TuneKnobs(func(k *pocket.Knobs) { k.Placements = want })
	in := onFargate(def)
	in.ClientToken = sdk.String("one")
	for _, reason := range want {
		out, err := c.ecs.RunTask(t.Context(), in)
		if err != nil || len(out.Tasks) != 0 || len(out.Failures) != 1 || *out.Failures[0].Reason != reason {
			t.Fatalf("got %v, %v, want failure %s", out, err, reason)
		}
	}
	c.run(t, in) // a failure uses up no token
}

// TestF7FamilyLock lets one registration of a family through at a time.
func TestF7FamilyLock(t *testing.T) {
	c := newCloud(t, Options{})
	c.ECS().SetKnobs(pocket.Knobs{RegisterTakes: 300 * time.Millisecond})
	var all sync.WaitGroup
	var made, refused, others atomic.Int32
	for range 10 {
		all.Go(func() {
			_, err := c.ecs.RegisterTaskDefinition(t.Context(), definition("locked", "true"))
			switch {
			case err == nil:
				made.Add(1)
			case code(err) == "ClientException" && strings.Contains(err.Error(), "Too many concurrent attempts to create a new revision of the specified family."):
				refused.Add(1)
			default:
				others.Add(1)
			}
		})
	}
	all.Go(func() {
		if _, err := c.ecs.RegisterTaskDefinition(t.Context(), definition("free", "true")); err != nil {
			t.Errorf("another family: %v", err)
		}
	})
	all.Wait()
	if made.Load() < 1 || refused.Load() < 1 || others.Load() > 0 {
		t.Errorf("%d made, %d refused, %d others", made.Load(), refused.Load(), others.Load())
	}
}

// TestFaults lets calls go wrong on the way.
func TestFaults(t *testing.T) {
	c := newCloud(t, Options{})
	def := c.register(t, definition("faults", "sleep", "60"))
	tasks := func() int { return len(c.list(t, &ecs.ListTasksInput{})) }

	c.Faults().Add(fault.Rule{Action: "ecs:RunTask", Count: 1, Effect: fault.Effect{Drop: true}})
	if _, err := c.ecs.RunTask(t.Context(), onFargate(def)); err == nil || code(err) != "" {
		t.Errorf("a dropped reply arrives as %v", err)
	}
	if n := tasks(); n != 1 {
		t.Errorf("a call whose reply is dropped made %d tasks", n)
	}
	c.Faults().Add(fault.Rule{Action: "ecs:RunTask", Count: 1, Effect: fault.Effect{Reset: true}})
	if _, err := c.ecs.RunTask(t.Context(), onFargate(def)); err == nil || code(err) != "" {
		t.Errorf("a reset arrives as %v", err)
	}
	if n := tasks(); n != 1 {
		t.Errorf("a call that was reset made a task: %d", n)
	}
	c.Faults().Add(fault.Rule{Action: "ecs:*", Count: 1, Effect: fault.Effect{Refuse: Throttle()}})
	if _, err := c.ecs.RunTask(t.Context(), onFargate(def)); code(err) != "ThrottlingException" {
		t.Errorf("a throttled call gets %v", err)
	}
	c.Faults().Add(fault.Rule{Action: "ecs:StopTask", Effect: fault.Effect{Refuse: c.Deny("POCKET", "ecs:StopTask", "*")}})
	_, err := c.ecs.StopTask(t.Context(), &ecs.StopTaskInput{Task: sdk.String("x")})
	if code(err) != "AccessDeniedException" || !strings.Contains(err.Error(), "is not authorized to perform: ecs:StopTask on resource: *") {
		t.Errorf("a denied call gets %v", err)
	}
	c.Faults().Clear()
	c.Faults().Add(fault.Rule{Action: "ecs:RunTask", Skip: 1, Count: 1, Effect: fault.Effect{Refuse: &fault.Refusal{Code: "ServerException", Status: 503, Message: "m", RetryAfter: 1500 * time.Millisecond}}})
	c.run(t, onFargate(def))
	status, _, _ := c.call(t, "ecs:RunTask", doc{"taskDefinition": def})
	if status != 503 {
		t.Errorf("the second call gets %d", status)
	}
	if n := c.Calls().Count("ecs:RunTask"); n != 5 {
		t.Errorf("%d calls counted, want 5", n)
	}
	lost := 0
	for _, call := range c.Calls().Calls("ecs:RunTask") {
		if call.Lost {
			lost++
		}
		if !strings.Contains(string(call.Request), def) {
			t.Errorf("a recorded request is %s", call.Request)
		}
	}
	if lost != 2 {
		t.Errorf("%d calls are recorded as lost", lost)
	}
}

// TestLimits refuses calls beyond the rate, and takes them later.
func TestLimits(t *testing.T) {
	now := &clock{}
	frozen := time.Now()
	c := newCloud(t, Options{Now: func() time.Time { return frozen.Add(time.Duration(now.offset.Load())) }, AnyClock: true})
	c.SetLimits(ECSLimits())
	call := func() string {
		_, err := c.ecs.DescribeClusters(t.Context(), &ecs.DescribeClustersInput{})
		return code(err)
	}
	taken := 0
	for call() == "" {
		taken++
	}
	if taken != 50 || call() != "ThrottlingException" {
		t.Errorf("%d calls taken at once, then %s", taken, call())
	}
	now.Add(time.Second)
	if got := call(); got != "" {
		t.Errorf("a second later: %s", got)
	}
}

// TestSignature refuses calls that aren't signed as they must be.
func TestSignature(t *testing.T) {
	c := newCloud(t, Options{})
	for name, k := range map[string]struct {
		change func(*http.Request)
		code   string
	}{
		"none":      {func(r *http.Request) { r.Header.Del("Authorization") }, "MissingAuthenticationTokenException"},
		"basic":     {func(r *http.Request) { r.SetBasicAuth("a", "b") }, "IncompleteSignatureException"},
		"no date":   {func(r *http.Request) { r.Header.Del("X-Amz-Date") }, "IncompleteSignatureException"},
		"old":       {func(r *http.Request) { redate(r, -10*time.Minute) }, "InvalidSignatureException"},
		"too early": {func(r *http.Request) { redate(r, 3*time.Hour) }, "InvalidSignatureException"},
		"region":    {edit(Region, "us-east-1"), "InvalidSignatureException"},
		"service":   {edit("/ecs/", "/logs/"), "InvalidSignatureException"},
		"short":     {edit(strings.Repeat("0a", 32), "0a"), "IncompleteSignatureException"},
		"no key":    {edit("Credential=POCKET/", "Credential=/"), "IncompleteSignatureException"},
		"host":      {edit(";host", ""), "InvalidSignatureException"},
		"other day": {edit(time.Now().UTC().Format("20060102")+"/", "20200101/"), "InvalidSignatureException"},
		"type":      {func(r *http.Request) { r.Header.Set("Content-Type", "application/json") }, "UnknownOperationException"},
		"target":    {func(r *http.Request) { r.Header.Set("X-Amz-Target", "DynamoDB_20120810.GetItem") }, "UnknownOperationException"},
	} {
		req := c.request(t, "ecs:ListClusters", []byte("{}"))
		k.change(req)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.Header.Get("X-Amzn-Errortype"); got != k.code || resp.StatusCode != 400 {
			t.Errorf("%s: got %d %s, want %s", name, resp.StatusCode, got, k.code)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}

func edit(old, new string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), old, new, 1))
	}
}

// redate signs for another time.
func redate(r *http.Request, by time.Duration) {
	at := time.Now().Add(by).UTC()
	r.Header.Set("X-Amz-Date", at.Format("20060102T150405Z"))
	edit(time.Now().UTC().Format("20060102"), at.Format("20060102"))(r)
}

// TestTags sets, spreads and changes tags.
func TestTags(t *testing.T) {
	c := newCloud(t, Options{})
	d := definition("tags", "sleep", "60")
	d.Tags = []types.Tag{{Key: sdk.String("a"), Value: sdk.String("def")}, {Key: sdk.String("b"), Value: sdk.String("def")}}
	in := onFargate(c.register(t, d))
	in.Tags = []types.Tag{{Key: sdk.String("a"), Value: sdk.String("run")}}
	in.PropagateTags, in.EnableECSManagedTags = types.PropagateTagsTaskDefinition, true
	arn := c.run(t, in).TaskArn
	show := func() string {
		out, err := c.ecs.ListTagsForResource(t.Context(), &ecs.ListTagsForResourceInput{ResourceArn: arn})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, tag := range out.Tags {
			all = append(all, *tag.Key+"="+*tag.Value)
		}
		return strings.Join(all, " ")
	}
	if got := show(); got != "a=run b=def aws:ecs:clusterName=default" {
		t.Errorf("tags %s", got)
	}
	if _, err := c.ecs.TagResource(t.Context(), &ecs.TagResourceInput{ResourceArn: arn, Tags: []types.Tag{{Key: sdk.String("b"), Value: sdk.String("new")}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ecs.UntagResource(t.Context(), &ecs.UntagResourceInput{ResourceArn: arn, TagKeys: []string{"a", "none"}}); err != nil {
		t.Fatal(err)
	}
	if got := show(); got != "b=new aws:ecs:clusterName=default" {
		t.Errorf("changed tags %s", got)
	}
	bare, err := c.ecs.DescribeTasks(t.Context(), &ecs.DescribeTasksInput{Tasks: []string{*arn}})
	if err != nil || len(bare.Tasks[0].Tags) != 0 {
		t.Errorf("tags are shown that nobody asked for: %v, %v", bare, err)
	}
}

// TestDefinitions registers, finds, lists and takes out revisions.
func TestDefinitions(t *testing.T) {
	c := newCloud(t, Options{})
	first, second := c.register(t, definition("fam", "true")), c.register(t, definition("fam", "true"))
	if !strings.HasSuffix(first, ":task-definition/fam:1") || !strings.HasSuffix(second, "/fam:2") {
		t.Errorf("revisions %s and %s", first, second)
	}
	get := func(name string) (string, types.TaskDefinitionStatus) {
		out, err := c.ecs.DescribeTaskDefinition(t.Context(), &ecs.DescribeTaskDefinitionInput{TaskDefinition: &name})
		if err != nil {
			return code(err), ""
		}
		return *out.TaskDefinition.TaskDefinitionArn, out.TaskDefinition.Status
	}
	if got, _ := get("fam"); got != second {
		t.Errorf("the family means %s", got)
	}
	if _, err := c.ecs.DeregisterTaskDefinition(t.Context(), &ecs.DeregisterTaskDefinitionInput{TaskDefinition: &second}); err != nil {
		t.Fatal(err)
	}
	if got, _ := get("fam"); got != first {
		t.Errorf("the family means %s after its newest is INACTIVE", got)
	}
	if got, status := get("fam:2"); got != second || status != types.TaskDefinitionStatusInactive {
		t.Errorf("the second is %s, %s", got, status)
	}
	list := func(status types.TaskDefinitionStatus) string {
		out, err := c.ecs.ListTaskDefinitions(t.Context(), &ecs.ListTaskDefinitionsInput{FamilyPrefix: sdk.String("fam"), Status: status})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(out.TaskDefinitionArns, " ")
	}
	if got := list(""); got != first {
		t.Errorf("ACTIVE: %s", got)
	}
	if got := list(types.TaskDefinitionStatusInactive); got != second {
		t.Errorf("INACTIVE: %s", got)
	}
	out, err := c.ecs.DeleteTaskDefinitions(t.Context(), &ecs.DeleteTaskDefinitionsInput{TaskDefinitions: []string{first, second}})
	if err != nil || len(out.Failures) != 1 || *out.Failures[0].Arn != first || len(out.TaskDefinitions) != 1 {
		t.Fatalf("deleted %v, %v", out, err)
	}
	if got, _ := get("fam:2"); got != "ClientException" {
		t.Errorf("a deleted revision is %s", got)
	}
	if third := c.register(t, definition("fam", "true")); !strings.HasSuffix(third, "/fam:3") {
		t.Errorf("a revision's number is used again: %s", third)
	}
}

// TestF6OverridesSize takes 8,192 characters, whatever they are, and no more.
func TestF6OverridesSize(t *testing.T) {
	c := newCloud(t, Options{})
	def := c.register(t, definition("size", "true"))
	frame := len(`{"containerOverrides":[{"name":"main","command":["true",""]}]}`)
	for name, letter := range map[string]string{"plain": "x", "two bytes": "é", "four bytes": "🚀", "html": "<"} {
		in := onFargate(def)
		for size, want := range map[int]string{8192: "", 8193: "InvalidParameterException"} {
			in.Overrides = &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{{Name: sdk.String("main"), Command: []string{"true", strings.Repeat(letter, size-frame)}}}}
			if _, err := c.ecs.RunTask(t.Context(), in); code(err) != want {
				t.Errorf("%s: %d characters: %v", name, size, err)
			}
		}
	}
}

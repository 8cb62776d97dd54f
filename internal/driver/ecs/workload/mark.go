package workload

import (
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/sdk"
)

// The tags of a service that are ours. restores is how many replicas a start
// brings back; it counts only while the service wants none.
const (
	tagOp       = sdk.LabelPrefix + "op"
	tagRestores = sdk.LabelPrefix + "restores"
)

// What a mark says that an operation asks for.
const (
	wantCreate  = "create" // that there be the service
	wantReplace = "new"    // another deployment than the one of before
	wantCount   = "count:" // a number of tasks
	wantDefined = "rev:"   // a revision of the task definition
)

// mark is the last operation that was begun on a service, in words of a tag:
// OPERATION WANT DEPLOYMENT COUNT, the latter two as they were before.
type mark struct {
	op         sdk.ID
	want       string
	deployment string
	count      int
}

// text is a mark as a tag holds it: at most 256 characters, of those that a tag may
// have.
func (m mark) text() string {
	return strings.Join([]string{m.op.String(), m.want, m.deployment, strconv.Itoa(m.count)}, " ")
}

// readMark reads a tag's value; ok is false for what isn't a mark.
func readMark(text string) (m mark, ok bool) {
	f := strings.Split(text, " ")
	if len(f) != 4 || f[1] == "" || f[2] == "" {
		return mark{}, false
	}
	id, err := sdk.ParseID(f[0])
	if err != nil {
		return mark{}, false
	}
	n, err := strconv.Atoi(f[3])
	return mark{op: id, want: f[1], deployment: f[2], count: n}, err == nil && n >= 0
}

// done reports whether what a mark asks for is there.
func (m mark) done(v *types.Service) bool {
	d := newest(v)
	if rest, ok := strings.CutPrefix(m.want, wantCount); ok {
		return strconv.Itoa(int(v.DesiredCount)) == rest
	}
	if rest, ok := strings.CutPrefix(m.want, wantDefined); ok {
		return d != nil && revision(str(d.TaskDefinition)) == rest
	}
	return m.want == wantCreate || m.want == wantReplace && d != nil && str(d.Id) != m.deployment
}

// untouched reports whether the service is as it was before the operation.
func (m mark) untouched(v *types.Service) bool {
	d := newest(v)
	return d != nil && str(d.Id) == m.deployment && int(v.DesiredCount) == m.count
}

// markOf is the mark on a service, which has its tags.
func markOf(v *types.Service) (mark, bool) { return readMark(tag(v, tagOp)) }

func tag(v *types.Service, key string) string {
	for _, t := range v.Tags {
		if str(t.Key) == key {
			return str(t.Value)
		}
	}
	return ""
}

// restores is how many replicas a start brings back of a service that we stopped.
func restores(v *types.Service) (n int, stopped bool) {
	n, err := strconv.Atoi(tag(v, tagRestores))
	return n, err == nil && n > 0 && v.DesiredCount == 0
}

// newest is the deployment that everything moves to; nil for a service whose
// deployments another controller makes.
func newest(v *types.Service) *types.Deployment {
	for i := range v.Deployments {
		if str(v.Deployments[i].Status) == "PRIMARY" {
			return &v.Deployments[i]
		}
	}
	return nil
}

// generation changes with every deployment, every count, and every operation of
// ours.
func generation(v *types.Service, op sdk.ID) string {
	g := "none"
	if d := newest(v); d != nil {
		g = lastPart(str(d.Id))
	}
	g += ":" + strconv.Itoa(int(v.DesiredCount))
	if !op.IsZero() {
		g += ":" + op.Short()
	}
	return g
}

// trace says what became of an operation; v is nil where there is no service.
func trace(v *types.Service, id sdk.ID, before string) *sdk.OpTrace {
	if v == nil {
		return &sdk.OpTrace{State: sdk.OpAbsent, Evidence: "there is no such service"}
	}
	m, ok := markOf(v)
	now := generation(v, m.op)
	switch {
	case ok && m.op == id && m.done(v):
		t := &sdk.OpTrace{State: sdk.OpAccepted, Generation: now, Evidence: traceWords(v) + ", and what it asks for is there"}
		if d := newest(v); d != nil {
			t.Rollout = str(d.Id)
		}
		return t
	case ok && m.op == id && m.untouched(v):
		return &sdk.OpTrace{State: sdk.OpAbsent, Evidence: traceWords(v) + " says that it was begun, and the service is as it was before"}
	case ok && m.op == id:
		return &sdk.OpTrace{State: sdk.OpUnknown, Evidence: "the service is neither as the operation found it nor as it asks for: another change came after it"}
	case before != "" && before == now:
		return &sdk.OpTrace{State: sdk.OpAbsent, Evidence: "the service is as it was before, and has no mark of the operation"}
	}
	return &sdk.OpTrace{State: sdk.OpUnknown, Evidence: "another operation came after it"}
}

func traceWords(v *types.Service) string { return "tag " + tagOp + " of service " + str(v.ServiceName) }

package workload

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/sdk"
)

// tagOp is the tag that names the last operation. Starts, stops and restarts take
// no body, so that it is set by a call of its own before theirs; what was there
// then tells later whether they were carried out.
const tagOp = sdk.LabelPrefix + "op"

// The verbs of marks. A group with either of the last two was made by the same call
// as its tag.
const (
	verbStart   = "start"
	verbStop    = "stop"
	verbRestart = "restart"
	verbCreate  = "create"
	verbConfig  = "config"
)

// mark is what the tag holds.
type mark struct {
	id   sdk.ID
	verb string
	// at is our time when it was set.
	at time.Time
	// started is the newest start of a container before, kills how often the
	// platform had ended one.
	started time.Time
	kills   int
}

// newMark is the mark of an operation on a group as it is; nil is none yet.
func newMark(id sdk.ID, verb string, now time.Time, v *view) mark {
	m := mark{id: id, verb: verb, at: now}
	if v != nil {
		m.started, m.kills = v.newest(), v.kills()
	}
	return m
}

// String writes a mark as a tag may hold it.
func (m mark) String() string {
	started := "-"
	if !m.started.IsZero() {
		started = strconv.FormatInt(m.started.UnixNano(), 10)
	}
	return strings.Join([]string{m.id.String(), m.verb, strconv.FormatInt(m.at.UnixMilli(), 10), started, strconv.Itoa(m.kills)}, " ")
}

// parseMark reads a tag.
func parseMark(s string) (mark, bool) {
	f := strings.Split(s, " ")
	if len(f) != 5 {
		return mark{}, false
	}
	m := mark{verb: f[1]}
	var err error
	if m.id, err = sdk.ParseID(f[0]); err != nil {
		return mark{}, false
	}
	ms, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil {
		return mark{}, false
	}
	m.at = time.UnixMilli(ms)
	if f[3] != "-" {
		ns, err := strconv.ParseInt(f[3], 10, 64)
		if err != nil {
			return mark{}, false
		}
		m.started = time.Unix(0, ns)
	}
	if m.kills, err = strconv.Atoi(f[4]); err != nil || m.kills < 0 {
		return mark{}, false
	}
	switch m.verb {
	case verbStart, verbStop, verbRestart, verbCreate, verbConfig:
		return m, true
	}
	return mark{}, false
}

func markOf(g *arm.ContainerGroup) (mark, bool) { return parseMark(tag(g, tagOp)) }

// seen says in words by what a group shows that the marked operation was carried
// out; empty where nothing does.
func (m mark) seen(v view) string {
	switch m.verb {
	case verbCreate, verbConfig:
		return "the call that set it deployed the group"
	case verbStop:
		if v.stopped() {
			return "the group is stopped"
		}
		if v.kills() > m.kills {
			return "Azure has ended its containers since"
		}
	case verbStart:
		if v.deploying() || is(v.group, stateRunning) || v.allAfter(m.started) {
			return "the group is up, or comes up"
		}
	case verbRestart:
		switch {
		case v.deploying():
			return "the group comes up"
		case v.kills() > m.kills:
			return "Azure has ended its containers since"
		case v.allAfter(m.started):
			return "every container was started since"
		}
	}
	return ""
}

// done reports whether nothing of before the marked operation is left.
func (m mark) done(v view) bool {
	if m.verb == verbStop {
		return v.stopped()
	}
	return v.ended() || v.allAfter(m.started)
}

// young reports whether a marked operation may yet take effect, or show.
func (o *Operator) young(m mark) bool {
	return o.Clock.Now().Before(m.at.Add(o.VisibleWithin))
}

// trace says what became of an operation. Before is the generation that was read
// before it was sent; empty is not known.
func (o *Operator) trace(id sdk.ID, before string, v view) *sdk.OpTrace {
	m, ok := markOf(v.g)
	generation := generationOf(v.g)
	switch {
	case ok && m.id == id:
		if how := m.seen(v); how != "" {
			return &sdk.OpTrace{State: sdk.OpAccepted, Generation: generation, Evidence: "the tag " + tagOp + " names it, and " + how}
		}
		if o.young(m) {
			return &sdk.OpTrace{State: sdk.OpUnknown, Evidence: "the tag " + tagOp + " names it, and its effect isn't shown yet"}
		}
		return &sdk.OpTrace{State: sdk.OpAbsent, Evidence: fmt.Sprintf("the tag %s names it, and the group is %s after it as it was before", tagOp, o.VisibleWithin)}
	case before != "" && before == generation:
		return &sdk.OpTrace{State: sdk.OpAbsent, Evidence: "the group is what it was before, with the tag " + tagOp + " of then"}
	}
	return &sdk.OpTrace{State: sdk.OpUnknown, Evidence: "the tag " + tagOp + " names another operation"}
}

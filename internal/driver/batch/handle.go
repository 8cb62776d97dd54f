package batch

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// The members of a handle's metadata.
const (
	keyDefinition = "definition"
	keyLogGroup   = "log_group"
	keyLogStream  = "log_stream"
	keySent       = "sent"
)

// jobID is the form of a job's ID.
var jobID = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// handle is enough for any machine: it names the job, and where its log is. The
// stream is known only once the job has started; until then it stays out, and
// whoever reads the log asks for it.
func (p *provider) handle(id, name, definition, group string, sent time.Time) sdk.JobHandle {
	return sdk.JobHandle{V: sdk.HandleVersion, Kind: Kind, Identity: p.identity, ID: id, Name: name, Metadata: map[string]string{
		keyDefinition: definition, keyLogGroup: group, keySent: itoa(sent.Unix())}}
}

// withStream returns a handle that names its stream, and whether that is news.
func withStream(h sdk.JobHandle, stream string) (sdk.JobHandle, bool) {
	if stream == "" || h.Metadata[keyLogStream] == stream {
		return h, false
	}
	h.Metadata = maps.Clone(h.Metadata)
	h.Metadata[keyLogStream] = stream
	return h, true
}

// checkHandle refuses a handle of another provider, and one that can't be ours.
func (p *provider) checkHandle(op string, h sdk.JobHandle) error {
	if err := h.Check(op, p.identity); err != nil {
		return err
	}
	if !jobID.MatchString(h.ID) || h.Metadata[keyLogGroup] == "" {
		return p.fail(sdk.InvalidArgument, op, fmt.Errorf("%q is no handle of a job", h.ID))
	}
	return nil
}

// young reports whether a job may still not be visible.
func (p *provider) young(h sdk.JobHandle) bool {
	n, err := strconv.ParseInt(h.Metadata[keySent], 10, 64)
	if err != nil {
		return false
	}
	age := p.clock.Now().Sub(time.Unix(n, 0))
	// A clock that was set back makes a job of the future, which is young.
	return age < time.Duration(p.cfg.MissingGrace)
}

// jobName is an attempt's name: by it alone a job is found again. Names aren't
// unique on AWS Batch, and matched without regard to case, which an ID hasn't.
func jobName(run, attempt sdk.ID, number int) string {
	return fmt.Sprintf("%s%s-%s-%d", prefix, run, attempt, number)
}

// runPrefix is what the names of all attempts of a run begin with.
func runPrefix(run sdk.ID) string { return prefix + run.String() + "-" }

// readName reads what jobName wrote.
func readName(name string) (run, attempt sdk.ID, number int, ok bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	parts := strings.Split(rest, "-")
	if !ok || len(parts) != 3 {
		return run, attempt, 0, false
	}
	run, err := sdk.ParseID(parts[0])
	if err != nil {
		return run, attempt, 0, false
	}
	if attempt, err = sdk.ParseID(parts[1]); err != nil {
		return run, attempt, 0, false
	}
	number, err = strconv.Atoi(parts[2])
	return run, attempt, number, err == nil && number > 0
}

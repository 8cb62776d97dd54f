package cloudrun

import (
	"encoding/json"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/windlass-run/windlass/sdk"
)

const (
	client    = "windlass"
	labelName = sdk.LabelPrefix + "name"

	// maxJobID is the longest name of a job.
	// https://cloud.google.com/run/docs/create-jobs
	maxJobID = 49
	// executionToken is the end of the name of a job's one execution.
	// https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.jobs#Job
	executionToken = "run"
	jobPrefix      = "windlass-"
)

// jobID names an attempt's job: windlass- and the attempt's 26 characters.
func jobID(attempt sdk.ID) string { return jobPrefix + attempt.String() }

// executionID names the execution that Cloud Run starts with the job.
func executionID(job string) string { return job + "-" + executionToken }

// last returns a resource's own ID: replies name projects by ID or number.
func last(name string) string { return path.Base(name) }

// jobOf returns the job in an execution's name.
func jobOf(execution string) string {
	_, rest, _ := strings.Cut(execution, "/jobs/")
	job, _, _ := strings.Cut(rest, "/")
	return job
}

// encodeRequest gives the request as Google's JSON, in canonical form.
func encodeRequest(r *runpb.CreateJobRequest) (json.RawMessage, error) {
	b, err := protojson.Marshal(r)
	if err != nil {
		return nil, err
	}
	return sdk.CanonicalJSON(b)
}

func decodeRequest(raw json.RawMessage) (*runpb.CreateJobRequest, error) {
	r := &runpb.CreateJobRequest{}
	if err := protojson.Unmarshal(raw, r); err != nil {
		return nil, err
	}
	if len(r.GetJob().GetTemplate().GetTemplate().GetContainers()) != 1 {
		return nil, errors.New("it has no container")
	}
	return r, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

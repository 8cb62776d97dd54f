package batch

import (
	"bytes"
	"encoding/json"

	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/sdk"
)

// request is what a launch sends, in AWS's own words and without the values of
// secrets.
type request struct {
	Definition definition `json:"definition"`
	Job        submitJob  `json:"job"`
}

// definition is a RegisterJobDefinition request.
// https://docs.aws.amazon.com/batch/latest/APIReference/API_RegisterJobDefinition.html
type definition struct {
	Name      string            `json:"jobDefinitionName,omitzero"`
	Platform  string            `json:"platformCapability"`
	Container container         `json:"containerProperties"`
	Tags      map[string]string `json:"tags,omitzero"`
}

type container struct {
	Image            string            `json:"image"`
	Command          []string          `json:"command,omitzero"`
	Environment      map[string]string `json:"environment,omitzero"`
	User             string            `json:"user,omitzero"`
	VCPU             string            `json:"vcpu"`
	Memory           string            `json:"memory"`
	GPU              int64             `json:"gpu,omitzero"`
	ExecutionRole    string            `json:"executionRoleArn,omitzero"`
	JobRole          string            `json:"jobRoleArn,omitzero"`
	PublicIP         string            `json:"assignPublicIp,omitzero"`
	PlatformVersion  string            `json:"platformVersion,omitzero"`
	Architecture     string            `json:"cpuArchitecture,omitzero"`
	EphemeralStorage int32             `json:"ephemeralStorageGiB,omitzero"`
	// Secrets maps variables to what ECS fetches them from.
	Secrets    map[string]string `json:"secrets,omitzero"`
	LogOptions map[string]string `json:"logOptions"`
}

// submitJob is a SubmitJob request. It always has one attempt: a retry is ours.
// https://docs.aws.amazon.com/batch/latest/APIReference/API_SubmitJob.html
type submitJob struct {
	Name  string `json:"jobName"`
	Queue string `json:"jobQueue"`
	// Definition stands without a revision: the newest active one.
	Definition string            `json:"jobDefinition"`
	Override   override          `json:"override,omitzero"`
	Timeout    int32             `json:"attemptDurationSeconds,omitzero"`
	Tags       map[string]string `json:"tags"`
}

// override is what differs from run to run.
type override struct {
	Command     []string          `json:"command,omitzero"`
	Environment map[string]string `json:"environment,omitzero"`
}

func decodeRequest(raw json.RawMessage) (request, error) {
	var r request
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	err := dec.Decode(&r)
	return r, err
}

// hash returns what tells the definition from others: all of it but for its
// name, which follows from the hash, and its tags.
func (d definition) hash() (string, error) {
	d.Name, d.Tags = "", nil
	b, err := sdk.EncodeCanonical(d)
	if err != nil {
		return "", err
	}
	return sdk.HashCanonical(b)[:32], nil
}

const (
	// maxName is the longest name of a definition, and of a job.
	maxName = 128
	prefix  = "windlass-"
	// labelDefinition is the tag of a definition that holds its hash.
	labelDefinition = sdk.LabelPrefix + "definition"
	labelName       = sdk.LabelPrefix + "name"
)

// definitionName returns the name of an owner's definition. It has letters,
// digits, dashes and underscores.
func definitionName(owner, hash string) string {
	rule := sdk.NameRule{Max: maxName - len(prefix) - 1 - len(hash), Allowed: func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
	}}
	return prefix + rule.Fit(owner) + "-" + hash
}

// input returns the request that registers the definition.
func (d definition) input() *batch.RegisterJobDefinitionInput {
	c := d.Container
	props := &types.ContainerProperties{
		Image: &c.Image, Command: c.Command, Environment: pairs(c.Environment), User: optional(c.User), ExecutionRoleArn: optional(c.ExecutionRole), JobRoleArn: optional(c.JobRole),
		ResourceRequirements: []types.ResourceRequirement{{Type: types.ResourceTypeVcpu, Value: &c.VCPU}, {Type: types.ResourceTypeMemory, Value: &c.Memory}},
		LogConfiguration:     &types.LogConfiguration{LogDriver: types.LogDriverAwslogs, Options: c.LogOptions},
	}
	if c.GPU > 0 {
		props.ResourceRequirements = append(props.ResourceRequirements, types.ResourceRequirement{Type: types.ResourceTypeGpu, Value: new(itoa(c.GPU))})
	}
	for _, name := range sortedKeys(c.Secrets) {
		props.Secrets = append(props.Secrets, types.Secret{Name: &name, ValueFrom: new(c.Secrets[name])})
	}
	if c.PublicIP != "" {
		props.NetworkConfiguration = &types.NetworkConfiguration{AssignPublicIp: types.AssignPublicIp(c.PublicIP)}
	}
	if c.PlatformVersion != "" {
		props.FargatePlatformConfiguration = &types.FargatePlatformConfiguration{PlatformVersion: &c.PlatformVersion}
	}
	if c.Architecture != "" {
		props.RuntimePlatform = &types.RuntimePlatform{CpuArchitecture: &c.Architecture, OperatingSystemFamily: new("LINUX")}
	}
	if c.EphemeralStorage > 0 {
		props.EphemeralStorage = &types.EphemeralStorage{SizeInGiB: &c.EphemeralStorage}
	}
	return &batch.RegisterJobDefinitionInput{JobDefinitionName: &d.Name, Type: types.JobDefinitionTypeContainer, ContainerProperties: props,
		PlatformCapabilities: []types.PlatformCapability{types.PlatformCapability(d.Platform)},
		RetryStrategy:        &types.RetryStrategy{Attempts: new(int32(1))}, Tags: d.Tags}
}

// input returns the request that submits the job. Visible are variables with
// the values of secrets that may be seen.
func (j submitJob) input(visible map[string]string) *batch.SubmitJobInput {
	in := &batch.SubmitJobInput{JobName: &j.Name, JobQueue: &j.Queue, JobDefinition: &j.Definition, Tags: j.Tags, PropagateTags: new(true),
		RetryStrategy: &types.RetryStrategy{Attempts: new(int32(1))}}
	if j.Timeout > 0 {
		in.Timeout = &types.JobTimeout{AttemptDurationSeconds: &j.Timeout}
	}
	if o := j.Override.with(visible); o.Command != nil || len(o.Environment) > 0 {
		in.ContainerOverrides = &types.ContainerOverrides{Command: o.Command, Environment: pairs(o.Environment)}
	}
	return in
}

func (o override) with(visible map[string]string) override {
	env := map[string]string{}
	for _, m := range []map[string]string{o.Environment, visible} {
		for k, v := range m {
			env[k] = v
		}
	}
	o.Environment = env
	return o
}

const (
	// ecsOverrides is the most characters that the overrides of a job's task may
	// have, those of JSON itself included. AWS Batch checks nothing: a job with
	// more is accepted, and fails.
	// https://github.com/Netflix/metaflow/issues/1482
	ecsOverrides = 8192
	// batchOwn is room for the variables that AWS Batch adds to them.
	// https://docs.aws.amazon.com/batch/latest/userguide/job_env_vars.html
	batchOwn     = 1024
	maxOverrides = ecsOverrides - batchOwn
	// What a definition and a submission may have.
	// https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html
	maxDefinition = 24 << 10
	maxSubmit     = 30<<10 - 1
)

// size returns how long the overrides are as ECS is given them. It counts bytes,
// which are never fewer than characters.
func (o override) size() (int, error) {
	type pair struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	type one struct {
		Name        string   `json:"name"`
		Command     []string `json:"command,omitzero"`
		Environment []pair   `json:"environment,omitzero"`
	}
	c := one{Name: "default", Command: o.Command}
	for _, k := range sortedKeys(o.Environment) {
		c.Environment = append(c.Environment, pair{k, o.Environment[k]})
	}
	return jsonSize(map[string]any{"containerOverrides": []one{c}})
}

// jsonSize returns the bytes of a value in JSON as it is sent.
func jsonSize(v any) (int, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Len() - 1, err
}

func pairs(m map[string]string) []types.KeyValuePair {
	var out []types.KeyValuePair
	for _, k := range sortedKeys(m) {
		out = append(out, types.KeyValuePair{Name: &k, Value: new(m[k])})
	}
	return out
}

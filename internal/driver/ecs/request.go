package ecs

import (
	"bytes"
	"encoding/json"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

// containerName is the one container of a task that is ours, and the one that
// decides. Others, which AWS may add, are looked at for their reasons alone.
const containerName = "main"

// request is what a launch sends, in AWS's own words and without the values of
// secrets.
type request struct {
	Definition definition `json:"definition"`
	Run        runTask    `json:"run"`
}

// definition is a RegisterTaskDefinition request.
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_RegisterTaskDefinition.html
type definition struct {
	Family                  string            `json:"family,omitzero"`
	RequiresCompatibilities []string          `json:"requiresCompatibilities"`
	NetworkMode             string            `json:"networkMode"`
	CPU                     string            `json:"cpu,omitzero"`
	Memory                  string            `json:"memory,omitzero"`
	ExecutionRoleARN        string            `json:"executionRoleArn,omitzero"`
	TaskRoleARN             string            `json:"taskRoleArn,omitzero"`
	Architecture            string            `json:"cpuArchitecture,omitzero"`
	EphemeralStorage        int32             `json:"ephemeralStorageGiB,omitzero"`
	Container               container         `json:"container"`
	Tags                    map[string]string `json:"tags,omitzero"`
}

type container struct {
	Image       string            `json:"image"`
	EntryPoint  []string          `json:"entryPoint,omitzero"`
	Command     []string          `json:"command,omitzero"`
	Environment map[string]string `json:"environment,omitzero"`
	Workdir     string            `json:"workingDirectory,omitzero"`
	User        string            `json:"user,omitzero"`
	CPU         int32             `json:"cpu,omitzero"`
	Memory      int32             `json:"memory,omitzero"`
	GPU         int64             `json:"gpu,omitzero"`
	StopTimeout int32             `json:"stopTimeout,omitzero"`
	// Secrets maps variables to what ECS fetches them from.
	Secrets    map[string]string `json:"secrets,omitzero"`
	LogOptions map[string]string `json:"logOptions"`
}

// runTask is a RunTask request.
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_RunTask.html
type runTask struct {
	Cluster string `json:"cluster"`
	// Family stands without a revision, so that the request stays the same
	// when a definition had to be registered again: a token wants the same
	// request.
	Family            string             `json:"taskDefinition"`
	LaunchType        string             `json:"launchType,omitzero"`
	CapacityProviders []capacityProvider `json:"capacityProviderStrategy,omitzero"`
	PlatformVersion   string             `json:"platformVersion,omitzero"`
	Network           *network           `json:"networkConfiguration,omitzero"`
	Override          override           `json:"override,omitzero"`
	StartedBy         string             `json:"startedBy"`
	Group             string             `json:"group"`
	Token             string             `json:"clientToken"`
	Tags              map[string]string  `json:"tags"`
}

type network struct {
	Subnets        []string `json:"subnets"`
	SecurityGroups []string `json:"securityGroups,omitzero"`
	PublicIP       bool     `json:"assignPublicIp"`
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
// family, which follows from the hash, and its tags.
func (d definition) hash() (string, error) {
	d.Family, d.Tags = "", nil
	b, err := sdk.EncodeCanonical(d)
	if err != nil {
		return "", err
	}
	return sdk.HashCanonical(b)[:32], nil
}

// maxFamily is the longest name of a family.
const maxFamily = 255

// family returns the family of an owner's definition. It has letters, digits,
// dashes and underscores.
func family(owner, hash string) string {
	rule := sdk.NameRule{Max: maxFamily - len(familyPrefix) - 1 - len(hash), Allowed: func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
	}}
	return familyPrefix + rule.Fit(owner) + "-" + hash
}

const (
	familyPrefix = "windlass-"
	// labelDefinition is the tag of a definition that holds its hash.
	labelDefinition = sdk.LabelPrefix + "definition"
	labelName       = sdk.LabelPrefix + "name"
)

// input returns the request that registers the definition.
func (d definition) input() *ecs.RegisterTaskDefinitionInput {
	c := types.ContainerDefinition{
		Name: new(containerName), Image: &d.Container.Image, Essential: new(true), EntryPoint: d.Container.EntryPoint, Command: d.Container.Command,
		Environment: pairs(d.Container.Environment), WorkingDirectory: optional(d.Container.Workdir), User: optional(d.Container.User),
		Cpu: d.Container.CPU, Memory: positive(d.Container.Memory), StopTimeout: positive(d.Container.StopTimeout),
		LogConfiguration: &types.LogConfiguration{LogDriver: types.LogDriverAwslogs, Options: d.Container.LogOptions},
	}
	for _, name := range sortedKeys(d.Container.Secrets) {
		c.Secrets = append(c.Secrets, types.Secret{Name: &name, ValueFrom: new(d.Container.Secrets[name])})
	}
	if d.Container.GPU > 0 {
		c.ResourceRequirements = []types.ResourceRequirement{{Type: types.ResourceTypeGpu, Value: new(itoa(d.Container.GPU))}}
	}
	in := &ecs.RegisterTaskDefinitionInput{
		Family: &d.Family, NetworkMode: types.NetworkMode(d.NetworkMode), Cpu: optional(d.CPU), Memory: optional(d.Memory),
		ExecutionRoleArn: optional(d.ExecutionRoleARN), TaskRoleArn: optional(d.TaskRoleARN),
		ContainerDefinitions: []types.ContainerDefinition{c}, Tags: tagList(d.Tags),
	}
	for _, c := range d.RequiresCompatibilities {
		in.RequiresCompatibilities = append(in.RequiresCompatibilities, types.Compatibility(c))
	}
	if d.Architecture != "" {
		in.RuntimePlatform = &types.RuntimePlatform{CpuArchitecture: types.CPUArchitecture(d.Architecture), OperatingSystemFamily: types.OSFamilyLinux}
	}
	if d.EphemeralStorage > 0 {
		in.EphemeralStorage = &types.EphemeralStorage{SizeInGiB: d.EphemeralStorage}
	}
	return in
}

// input returns the request that starts the task. Visible are variables with
// the values of secrets that may be seen.
func (r runTask) input(visible map[string]string) *ecs.RunTaskInput {
	in := &ecs.RunTaskInput{
		Cluster: &r.Cluster, TaskDefinition: &r.Family, LaunchType: types.LaunchType(r.LaunchType), Count: new(int32(1)),
		PlatformVersion: optional(r.PlatformVersion), StartedBy: &r.StartedBy, Group: &r.Group, ClientToken: &r.Token, Tags: tagList(r.Tags),
	}
	for _, c := range r.CapacityProviders {
		in.CapacityProviderStrategy = append(in.CapacityProviderStrategy,
			types.CapacityProviderStrategyItem{CapacityProvider: &c.Name, Weight: c.Weight, Base: c.Base})
	}
	if r.Network != nil {
		public := types.AssignPublicIpDisabled
		if r.Network.PublicIP {
			public = types.AssignPublicIpEnabled
		}
		in.NetworkConfiguration = &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{
			Subnets: r.Network.Subnets, SecurityGroups: r.Network.SecurityGroups, AssignPublicIp: public}}
	}
	o := r.Override.with(visible)
	if o.Command != nil || len(o.Environment) > 0 {
		in.Overrides = &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{
			{Name: new(containerName), Command: o.Command, Environment: pairs(o.Environment)}}}
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

// maxOverrides is the most characters that a task's overrides may have, those
// of JSON itself included.
const maxOverrides = 8192

// size returns how long the overrides are as they are sent. It counts bytes,
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
	c := one{Name: containerName, Command: o.Command}
	for _, k := range sortedKeys(o.Environment) {
		c.Environment = append(c.Environment, pair{k, o.Environment[k]})
	}
	if c.Command == nil && len(c.Environment) == 0 {
		return 0, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(map[string]any{"containerOverrides": []one{c}})
	return b.Len() - 1, err
}

func tagList(m map[string]string) []types.Tag {
	var out []types.Tag
	for _, k := range sortedKeys(m) {
		out = append(out, types.Tag{Key: &k, Value: new(m[k])})
	}
	return out
}

func tagMap(tags []types.Tag) map[string]string {
	out := make(map[string]string, len(tags))
	for _, t := range tags {
		out[str(t.Key)] = str(t.Value)
	}
	return out
}

func pairs(m map[string]string) []types.KeyValuePair {
	var out []types.KeyValuePair
	for _, k := range sortedKeys(m) {
		out = append(out, types.KeyValuePair{Name: &k, Value: new(m[k])})
	}
	return out
}

// logOptions are those of the awslogs driver. Blocking: what the job writes is
// never dropped for a full buffer.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/specify-log-config.html
func (p *provider) logOptions(session *aws.Session) map[string]string {
	o := map[string]string{"awslogs-group": p.cfg.LogGroup, "awslogs-region": session.Region, "awslogs-stream-prefix": p.cfg.LogPrefix, "mode": "blocking"}
	if *p.cfg.CreateLogGroup {
		o["awslogs-create-group"] = "true"
	}
	return o
}

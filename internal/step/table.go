package step

import (
	"strings"

	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/sdk"
)

// TypeSandboxExec is the one type of step that there is.
const TypeSandboxExec = "step.sandbox_exec"

// shape is what a value of a step's config looks like.
type shape int

const (
	shapeText shape = iota
	shapeList
	// shapeWords is a list that may be empty.
	shapeWords
	shapeMap
	shapeSize
	shapeCores
	shapeDuration
	shapeBool
	shapeMounts
	shapeTmpfs
)

// entry is one key of a step's config, or of one of its mounts. The table of
// them is the only source of the checks, of the JSON schema and of the
// documents.
type entry struct {
	name  string
	shape shape
	doc   string
	// fixed: it decides where and how safely a step runs, so it is no template.
	fixed bool
	// enum are the texts that it may have; empty is any.
	enum []string
	// required: it may not be left out.
	required bool
	// fallback is what stands for one that isn't set, for the documents.
	fallback string
}

// entries are the keys of a step's config, in the order of the documents.
func entries() []entry {
	return []entry{
		{name: "image", shape: shapeText, doc: "The container image.", fallback: "needed, but on a provider that runs programs of this machine"},
		{name: "command", shape: shapeList, doc: "The command as a list, which no shell re-reads. Each word is one argument, whatever a template puts into it.", fallback: "the image's own"},
		{name: "image_entrypoint", shape: shapeWords, doc: "What the image's own entrypoint is, as a list; [] says that it has none. Some backends must know, and can't always find out.", fallback: "found out where it is needed"},
		{name: "env", shape: shapeMap, doc: "Variables by name. A number is put in quotes."},
		{name: "secrets", shape: shapeMap, doc: "References by name, such as secret://env/TOKEN. They are resolved on the way to the job, and no value stands in the record."},
		{name: "allow_visible_secret", shape: shapeBool, fixed: true, doc: "Whether values of secrets may stand where whoever may look at the job on the backend can read them.", fallback: "false: refused where only that would do"},
		{name: "mounts", shape: shapeMounts, doc: "Folders and volumes."},
		{name: "work_dir", shape: shapeText, doc: "The working folder, an absolute path.", fallback: "the image's own"},
		{name: "tmpfs", shape: shapeTmpfs, doc: "Memory that is mounted as a folder."},
		{name: "memory_limit", shape: shapeSize, doc: "The most memory, such as 128Mi or 1Gi, or a number of bytes.", fallback: "the profile's, else the backend's"},
		{name: "cpu_limit", shape: shapeCores, doc: "The most cores, such as 0.5 or 500m.", fallback: "the profile's, else the backend's"},
		{name: "timeout", shape: shapeDuration, doc: "How long the command may run, such as 90s or 5m.", fallback: "none"},
		{name: "start_timeout", shape: shapeDuration, doc: "How long it may take to start, from its first send until it runs, such as 10m.", fallback: "none"},
		{name: "ttl", shape: shapeDuration, doc: "How long the backend keeps what has ended if nobody cleans up. Windlass itself cleans up at once.", fallback: "300s on ephemeral, else 24h"},
		{name: "network", shape: shapeText, doc: "The network to join, or none.", fallback: "the profile's"},
		{name: "security_profile", shape: shapeText, fixed: true, enum: profileNames(), doc: "strict, standard or permissive.", fallback: "strict on local-docker and a remote runner, else the strongest that the provider gives"},
		{name: "fail_on_error", shape: shapeBool, fixed: true, doc: "Whether the file ends when the command fails.", fallback: "true"},
		{name: "exec_env", shape: shapeText, fixed: true, doc: "Where it runs: " + strings.Join(sandbox.Reserved(), ", ") + ", or the name of a remote runner in windlass.yaml.", fallback: sandbox.LocalDocker},
		{name: "provider", shape: shapeText, fixed: true, doc: "The provider that runs it, with exec_env: " + sandbox.ProviderEphemeral + "."},
		{name: "argo_module", shape: shapeText, fixed: true, doc: "The provider of kind argo that runs it, with exec_env: " + sandbox.Ephemeral + ".", fallback: "the only one that there is"},
	}
}

func mountEntries() []entry {
	return []entry{
		{name: "type", shape: shapeText, fixed: true, enum: []string{string(sdk.MountBind), string(sdk.MountVolume)}, doc: "bind for a folder, volume for a volume of the backend.", fallback: "bind for a source with a slash, else volume"},
		{name: "source", shape: shapeText, required: true, doc: "The folder, a relative one from the step file's own; or the volume's name."},
		{name: "target", shape: shapeText, required: true, doc: "The absolute path in the job."},
		{name: "read_only", shape: shapeBool, fixed: true, doc: "Whether the job may not write there.", fallback: "false"},
	}
}

func tmpfsEntries() []entry {
	return []entry{
		{name: "target", shape: shapeText, required: true, doc: "The absolute path in the job."},
		{name: "size", shape: shapeSize, doc: "Its most bytes, such as 16Mi.", fallback: "the backend's"},
	}
}

// Key describes a key of a step's config, for the documents.
type Key struct{ Name, Doc, Default string }

// Keys describes the keys of a step's config.
func Keys() []Key { return keysOf(entries()) }

// MountKeys describes the keys of an entry of mounts.
func MountKeys() []Key { return keysOf(mountEntries()) }

// TmpfsKeys describes the keys of an entry of tmpfs.
func TmpfsKeys() []Key { return keysOf(tmpfsEntries()) }

func keysOf(es []entry) []Key {
	var out []Key
	for _, e := range es {
		k := Key{e.name, e.doc, e.fallback}
		if e.required {
			k.Default = "needed"
		}
		out = append(out, k)
	}
	return out
}

func stepEntries() []entry {
	return []entry{
		{name: "name", shape: shapeText, fixed: true, required: true, doc: "What the step is called, by itself in its file: 1 to 63 letters, digits, dashes and underscores, a letter or digit first."},
		{name: "type", shape: shapeText, fixed: true, required: true, enum: []string{TypeSandboxExec}, doc: "The type of the step."},
	}
}

func profileNames() []string {
	var out []string
	for _, p := range sandbox.Profiles() {
		out = append(out, string(p))
	}
	return out
}

func names(es []entry) []string {
	var out []string
	for _, e := range es {
		out = append(out, e.name)
	}
	return out
}

func find(es []entry, name string) *entry {
	for i := range es {
		if es[i].name == name {
			return &es[i]
		}
	}
	return nil
}

// replaced are the types of steps that a command of ours stands for, and that
// command (ADR 0021).
func replaced() [][2]string {
	return [][2]string{
		{"step.argo_submit", "windlass run --on PROVIDER -d --image IMAGE -- COMMAND, with a provider of kind argo; or a step.sandbox_exec with exec_env: ephemeral, which also waits"},
		{"step.argo_status", "windlass status RUN"},
		{"step.argo_logs", "windlass logs RUN"},
		{"step.argo_delete", "windlass cancel RUN for one that runs, windlass rm RUN for what an ended one left"},
		{"step.argo_list", "windlass ps -a --filter provider=PROVIDER; windlass reap --dry-run lists what stands in the cluster"},
	}
}

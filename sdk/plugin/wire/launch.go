package wire

import (
	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
)

func argv(a sdk.Argv) *pb.Argv {
	if a == nil {
		return nil
	}
	return &pb.Argv{Args: each(a, func(s string) []byte { return []byte(s) })}
}

func unargv(m *pb.Argv) sdk.Argv {
	if m == nil {
		return nil
	}
	a := make(sdk.Argv, len(m.GetArgs()))
	for i, b := range m.GetArgs() {
		a[i] = string(b)
	}
	return a
}

func inputFile(f sdk.InputFile) *pb.InputFile {
	return &pb.InputFile{Path: f.Path, Mode: f.Mode, Data: f.Data}
}

func unInputFile(m *pb.InputFile) sdk.InputFile {
	return sdk.InputFile{Path: m.GetPath(), Mode: m.GetMode(), Data: m.GetData()}
}

func ref(r sdk.SecretRef) string   { return string(r) }
func unref(s string) sdk.SecretRef { return sdk.SecretRef(s) }

func (c *coder) spec(s sdk.JobSpec) *pb.JobSpec {
	return &pb.JobSpec{
		V: c.int32("spec.v", s.V), Name: s.Name, Image: s.Image,
		Entrypoint: argv(s.Entrypoint), Args: argv(s.Args), ImageEntrypoint: argv(s.ImageEntrypoint),
		Env:     mapOf(s.Env, func(v string) []byte { return []byte(v) }),
		Secrets: mapOf(s.Secrets, ref),
		Workdir: s.Workdir, User: s.User,
		Cpu: s.CPU, Memory: s.Memory, Gpu: s.GPU, EphemeralStorage: s.EphemeralStorage, Pids: s.PIDs,
		Timeout: span(s.Timeout), StartTimeout: span(s.StartTimeout), Grace: spanPtr(s.Grace),
		Retries: c.int32("spec.retries", s.Retries),
		Labels:  s.Labels, Network: s.Network,
		Mounts: each(s.Mounts, func(m sdk.Mount) *pb.Mount {
			return &pb.Mount{Type: string(m.Type), Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly, Size: m.Size}
		}),
		Files: each(s.Files, inputFile), Stdin: string(s.Stdin), Profile: string(s.Profile),
		Ttl: span(s.TTL), AllowVisibleSecret: s.AllowVisibleSecret, OptionsJson: s.Options,
	}
}

// unspec takes words as they are: a profile or mode that the plugin doesn't know is a
// problem of its PrepareJob.
func (c *coder) unspec(m *pb.JobSpec) sdk.JobSpec {
	if !c.given("spec", m) {
		return sdk.JobSpec{}
	}
	c.known("spec", m)
	return sdk.JobSpec{
		V: c.version("spec.v", m.GetV(), sdk.SpecVersion), Name: m.GetName(), Image: m.GetImage(),
		Entrypoint: unargv(m.GetEntrypoint()), Args: unargv(m.GetArgs()), ImageEntrypoint: unargv(m.GetImageEntrypoint()),
		Env:     mapOf(m.GetEnv(), func(b []byte) string { return string(b) }),
		Secrets: mapOf(m.GetSecrets(), unref),
		Workdir: m.GetWorkdir(), User: m.GetUser(),
		CPU: m.GetCpu(), Memory: m.GetMemory(), GPU: m.GetGpu(), EphemeralStorage: m.GetEphemeralStorage(), PIDs: m.GetPids(),
		Timeout:      c.duration("spec.timeout", m.GetTimeout()),
		StartTimeout: c.duration("spec.start_timeout", m.GetStartTimeout()),
		Grace:        c.durationPtr("spec.grace", m.GetGrace()),
		Retries:      int(m.GetRetries()),
		Labels:       mapOf(m.GetLabels(), same), Network: m.GetNetwork(),
		Mounts: each(m.GetMounts(), func(m *pb.Mount) sdk.Mount {
			return sdk.Mount{Type: sdk.MountType(m.GetType()), Source: m.GetSource(), Target: m.GetTarget(), ReadOnly: m.GetReadOnly(), Size: m.GetSize()}
		}),
		Files: each(m.GetFiles(), unInputFile), Stdin: sdk.StdinMode(m.GetStdin()), Profile: sdk.Profile(m.GetProfile()),
		TTL: c.duration("spec.ttl", m.GetTtl()), AllowVisibleSecret: m.GetAllowVisibleSecret(), Options: m.GetOptionsJson(),
	}
}

func identity(i sdk.Identity) *pb.Identity {
	if i == (sdk.Identity{}) {
		return nil
	}
	return &pb.Identity{Kind: i.Kind, Account: i.Account, Region: i.Region, Endpoint: i.Endpoint}
}

func unidentity(m *pb.Identity) sdk.Identity {
	return sdk.Identity{Kind: m.GetKind(), Account: m.GetAccount(), Region: m.GetRegion(), Endpoint: m.GetEndpoint()}
}

func (c *coder) handle(h sdk.JobHandle) *pb.JobHandle {
	return &pb.JobHandle{V: c.int32("handle.v", h.V), Kind: h.Kind, Identity: identity(h.Identity), Id: h.ID, Name: h.Name, Metadata: h.Metadata}
}

func (c *coder) unhandle(m *pb.JobHandle) sdk.JobHandle {
	if !c.given("handle", m) {
		return sdk.JobHandle{}
	}
	c.known("handle", m)
	return sdk.JobHandle{V: c.version("handle.v", m.GetV(), sdk.HandleVersion), Kind: m.GetKind(), Identity: unidentity(m.GetIdentity()),
		ID: m.GetId(), Name: m.GetName(), Metadata: mapOf(m.GetMetadata(), same)}
}

func (c *coder) cursor(p *sdk.LogCursor) *pb.LogCursor {
	if p == nil {
		return nil
	}
	return &pb.LogCursor{V: c.int32("cursor.v", p.V), Kind: p.Kind, Position: p.Position}
}

func (c *coder) uncursor(m *pb.LogCursor) *sdk.LogCursor {
	if m == nil {
		return nil
	}
	c.known("cursor", m)
	return &sdk.LogCursor{V: c.version("cursor.v", m.GetV(), sdk.CursorVersion), Kind: m.GetKind(), Position: mapOf(m.GetPosition(), same)}
}

// launch makes what problems, fitted defaults and warnings say plain, as
// sdk.Launch.Encode does of problems: they are for people, and may quote what is wrong.
func (c *coder) launch(l sdk.Launch) *pb.Launch {
	return &pb.Launch{
		V: c.int32("launch.v", l.V), Kind: l.Kind, Identity: identity(l.Identity),
		RunId: idBytes(l.RunID), AttemptId: idBytes(l.AttemptID), Attempt: c.int32("launch.attempt", l.Attempt),
		Owner: l.Owner, LedgerId: l.LedgerID, Names: l.Names, Token: l.Token, RequestJson: l.Request,
		Secrets: mapOf(l.Secrets, ref), Files: each(l.Files, inputFile), Stdin: string(l.Stdin),
		Resubmit: &pb.ResubmitRule{By: string(l.Resubmit.By), Window: span(l.Resubmit.Window)},
		Fitted: each(l.Fitted, func(f sdk.Fitted) *pb.Fitted {
			return &pb.Fitted{Field: plain(f.Field), Value: plain(f.Value), Why: plain(f.Why)}
		}),
		Warnings: plains(l.Warnings),
		Problems: each(l.Problems, func(p sdk.Problem) *pb.Problem {
			return &pb.Problem{Field: plain(p.Field), Value: plain(p.Value), Message: plain(p.Message), Code: c.int32("launch.problems.code", int(p.Code))}
		}),
		Read: l.Read, NativeDeadline: span(l.NativeDeadline), Expires: c.stamp("launch.expires", l.Expires),
	}
}

func (c *coder) unlaunch(m *pb.Launch) sdk.Launch {
	if !c.given("launch", m) {
		return sdk.Launch{}
	}
	c.known("launch", m)
	return sdk.Launch{
		V: c.version("launch.v", m.GetV(), sdk.LaunchVersion), Kind: m.GetKind(), Identity: unidentity(m.GetIdentity()),
		RunID: c.id("launch.run_id", m.GetRunId()), AttemptID: c.id("launch.attempt_id", m.GetAttemptId()),
		Attempt: c.count("launch.attempt", m.GetAttempt()),
		Owner:   m.GetOwner(), LedgerID: m.GetLedgerId(), Names: mapOf(m.GetNames(), same), Token: m.GetToken(), Request: m.GetRequestJson(),
		Secrets: mapOf(m.GetSecrets(), unref), Files: each(m.GetFiles(), unInputFile), Stdin: sdk.StdinMode(m.GetStdin()),
		Resubmit: sdk.ResubmitRule{By: submitBy(m.GetResubmit().GetBy()), Window: c.duration("launch.resubmit.window", m.GetResubmit().GetWindow())},
		Fitted: each(m.GetFitted(), func(f *pb.Fitted) sdk.Fitted {
			return sdk.Fitted{Field: f.GetField(), Value: f.GetValue(), Why: f.GetWhy()}
		}),
		Warnings:       each(m.GetWarnings(), same),
		Problems:       decodeProblems(m.GetProblems()),
		Read:           mapOf(m.GetRead(), same),
		NativeDeadline: c.duration("launch.native_deadline", m.GetNativeDeadline()),
		Expires:        c.time("launch.expires", m.GetExpires()),
	}
}

// problemCode keeps 0, which is not told.
func problemCode(n int32) sdk.Code {
	if n == 0 {
		return 0
	}
	return code(n)
}

// submitBy reads a word that nobody knows as the rule that never sends again.
func submitBy(s string) sdk.SubmitBy {
	return word(s, sdk.SubmitByNothing, sdk.SubmitByToken, sdk.SubmitByName, sdk.SubmitBySearch)
}

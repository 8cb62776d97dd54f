package wire

import (
	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
)

func workloadGuarantees(g sdk.WorkloadGuarantees) *pb.WorkloadGuarantees {
	if g == (sdk.WorkloadGuarantees{}) {
		return nil
	}
	m := &pb.WorkloadGuarantees{OpsBy: string(g.Ops.By), OpsWithin: span(g.Ops.Within), Compares: g.Compares, Restart: string(g.Restart), Stop: string(g.Stop),
		Failures: g.Failures, Warms: span(g.Warms)}
	if e := g.Exec; e != (sdk.ExecGuarantee{}) {
		m.Exec = &pb.ExecGuarantee{ExitCode: e.ExitCode, Argv: string(e.Argv), Stdin: e.Stdin, Terminal: e.Terminal, Apart: e.Apart, Signals: e.Signals}
	}
	return m
}

// unworkloadGuarantees reads a word that it doesn't know as what promises least.
func (c *coder) unworkloadGuarantees(m *pb.WorkloadGuarantees) sdk.WorkloadGuarantees {
	if m == nil {
		return sdk.WorkloadGuarantees{}
	}
	g := sdk.WorkloadGuarantees{
		Ops:      sdk.OpGuarantee{By: word(m.GetOpsBy(), sdk.OpNowhere, sdk.OpOnObject, sdk.OpInHistory), Within: c.duration("guarantees.workload.ops_within", m.GetOpsWithin())},
		Compares: m.GetCompares(), Restart: word(m.GetRestart(), sdk.RestartReplaces, sdk.RestartRolling, sdk.RestartInPlace),
		Stop: word(m.GetStop(), sdk.StopForgets, sdk.StopStops, sdk.StopZero), Failures: m.GetFailures(),
		Warms: c.duration("guarantees.workload.warms", m.GetWarms()),
	}
	if m.GetRestart() == "" {
		g.Restart = ""
	}
	if e := m.GetExec(); e != nil {
		g.Exec = sdk.ExecGuarantee{ExitCode: e.GetExitCode(), Argv: word(e.GetArgv(), sdk.ArgvOneString, sdk.ArgvExact, sdk.ArgvSubstituting, sdk.ArgvOneList),
			Stdin: e.GetStdin(), Terminal: e.GetTerminal(), Apart: e.GetApart(), Signals: e.GetSignals()}
		if e.GetArgv() == "" {
			g.Exec.Argv = ""
		}
	}
	return g
}

// there returns an empty message for one that isn't there.
func there[M any](m *M) *M {
	if m == nil {
		return new(M)
	}
	return m
}

func (c *coder) intPtr(field string, n *int) *int32 {
	if n == nil {
		return nil
	}
	v := c.int32(field, *n)
	return &v
}

// countPtr reads a number that may be unset and can't be below zero.
func (c *coder) countPtr(field string, n *int32) *int {
	if n == nil {
		return nil
	}
	v := c.count(field, *n)
	return &v
}

func (c *coder) operation(r sdk.OpRequest) *pb.OpRequest {
	m := &pb.OpRequest{OpId: c.changeBytes(r.OpID), Path: string(r.Path), AgainstAutoscaler: r.AgainstAutoscaler, DryRun: r.DryRun}
	if r.Expect.Replicas != nil || r.Expect.Generation != "" {
		m.Expect = &pb.Expect{Replicas: c.intPtr("op.expect.replicas", r.Expect.Replicas), Generation: r.Expect.Generation}
	}
	return m
}

func (c *coder) unoperation(m *pb.OpRequest) sdk.OpRequest {
	if !c.given("op", m) {
		return sdk.OpRequest{}
	}
	r := sdk.OpRequest{OpID: c.change(m.GetOpId()), Path: sdk.WorkloadPath(m.GetPath()), AgainstAutoscaler: m.GetAgainstAutoscaler(), DryRun: m.GetDryRun()}
	if e := m.GetExpect(); e != nil {
		r.Expect = sdk.Expect{Replicas: c.countPtr("op.expect.replicas", e.Replicas), Generation: e.GetGeneration()}
	}
	return r
}

func plannedCalls(list []sdk.PlannedCall) []*pb.PlannedCall {
	return each(list, func(p sdk.PlannedCall) *pb.PlannedCall {
		return &pb.PlannedCall{Name: plain(p.Name), Object: plain(p.Object), Args: clipMap(p.Args, maxWord)}
	})
}

// maxWord bounds a word for people in a planned call.
const maxWord = 4 << 10

func unplannedCalls(list []*pb.PlannedCall) []sdk.PlannedCall {
	return each(list, func(p *pb.PlannedCall) sdk.PlannedCall {
		return sdk.PlannedCall{Name: p.GetName(), Object: p.GetObject(), Args: mapOf(p.GetArgs(), same)}
	})
}

func opResult(r sdk.OpResult) *pb.OpResult {
	return &pb.OpResult{Changed: r.Changed, Generation: r.Generation, Rollout: r.Rollout, Trace: plain(r.Trace), Warnings: plains(r.Warnings), Calls: plannedCalls(r.Calls)}
}

func (c *coder) unopResult(m *pb.OpResult) sdk.OpResult {
	if !c.given("op", m) {
		return sdk.OpResult{}
	}
	return sdk.OpResult{Changed: m.GetChanged(), Generation: m.GetGeneration(), Rollout: m.GetRollout(), Trace: m.GetTrace(),
		Warnings: each(m.GetWarnings(), same), Calls: unplannedCalls(m.GetCalls())}
}

func (c *coder) deployment(s *sdk.DeploymentSpec) *pb.DeploymentSpec {
	if s == nil {
		return nil
	}
	m := &pb.DeploymentSpec{V: c.int32("spec.v", s.V), Name: s.Name, Image: s.Image, Command: argv(s.Command), Env: mapOf(s.Env, func(v string) []byte { return []byte(v) }),
		Secrets: mapOf(s.Secrets, func(r sdk.SecretRef) string { return string(r) }), Replicas: c.intPtr("spec.replicas", s.Replicas),
		Cpu: s.Resources.CPU, Memory: s.Resources.Memory, Config: mapOf(s.Config, same), OptionsJson: s.Options,
		Ports: each(s.Ports, func(p sdk.Port) *pb.Port {
			return &pb.Port{Name: p.Name, Port: c.int32("spec.ports", p.Port), Protocol: string(p.Protocol)}
		})}
	if h := s.Health; h != nil {
		m.Health = &pb.HealthCheck{Command: argv(h.Command), HttpPath: h.HTTPPath, Tcp: h.TCP, Port: c.int32("spec.health.port", h.Port), Interval: span(h.Interval),
			Timeout: span(h.Timeout), StartPeriod: span(h.StartPeriod), Failures: c.int32("spec.health.failures", h.Failures)}
	}
	return m
}

func (c *coder) undeployment(m *pb.DeploymentSpec) *sdk.DeploymentSpec {
	if m == nil {
		return nil
	}
	s := &sdk.DeploymentSpec{V: c.version("spec.v", m.GetV(), sdk.DeploymentVersion), Name: m.GetName(), Image: m.GetImage(), Command: unargv(m.GetCommand()),
		Env: mapOf(m.GetEnv(), func(b []byte) string { return string(b) }), Secrets: mapOf(m.GetSecrets(), func(s string) sdk.SecretRef { return sdk.SecretRef(s) }),
		Resources: sdk.Limits{CPU: m.GetCpu(), Memory: m.GetMemory()}, Config: mapOf(m.GetConfig(), same), Options: m.GetOptionsJson(),
		Ports: each(m.GetPorts(), func(p *pb.Port) sdk.Port {
			return sdk.Port{Name: p.GetName(), Port: int(p.GetPort()), Protocol: sdk.Protocol(p.GetProtocol())}
		})}
	if m.Replicas != nil {
		n := int(m.GetReplicas()) // what it may be is ValidateDeployment's matter
		s.Replicas = &n
	}
	if h := m.GetHealth(); h != nil {
		s.Health = &sdk.HealthCheck{Command: unargv(h.GetCommand()), HTTPPath: h.GetHttpPath(), TCP: h.GetTcp(), Port: int(h.GetPort()),
			Interval: c.duration("spec.health.interval", h.GetInterval()), Timeout: c.duration("spec.health.timeout", h.GetTimeout()),
			StartPeriod: c.duration("spec.health.start_period", h.GetStartPeriod()), Failures: int(h.GetFailures())}
	}
	return s
}

// EncodeStartWorkloadRequest returns r as a message.
func EncodeStartWorkloadRequest(r sdk.StartWorkloadRequest) (*pb.StartWorkloadRequest, error) {
	c := request("encode StartWorkload")
	return encoded(c, &pb.StartWorkloadRequest{Op: c.operation(r.Op), Spec: c.deployment(r.Spec), Replicas: c.intPtr("replicas", r.Replicas)})
}

// DecodeStartWorkloadRequest reads what EncodeStartWorkloadRequest wrote.
func DecodeStartWorkloadRequest(m *pb.StartWorkloadRequest) (sdk.StartWorkloadRequest, error) {
	c := request("decode StartWorkload")
	c.known("", m)
	return decoded(c, sdk.StartWorkloadRequest{Op: c.unoperation(m.GetOp()), Spec: c.undeployment(m.GetSpec()), Replicas: c.countPtr("replicas", there(m).Replicas)})
}

// EncodeStartWorkloadResponse returns r as a message.
func EncodeStartWorkloadResponse(r sdk.StartWorkloadResult) (*pb.StartWorkloadResponse, error) {
	return encoded(reply("encode StartWorkload's result"), &pb.StartWorkloadResponse{Op: opResult(r.Op)})
}

// DecodeStartWorkloadResponse reads what EncodeStartWorkloadResponse wrote.
func DecodeStartWorkloadResponse(m *pb.StartWorkloadResponse) (sdk.StartWorkloadResult, error) {
	c := reply("decode StartWorkload's result")
	return decoded(c, sdk.StartWorkloadResult{Op: c.unopResult(m.GetOp())})
}

// EncodeStopWorkloadRequest returns r as a message.
func EncodeStopWorkloadRequest(r sdk.StopWorkloadRequest) (*pb.StopWorkloadRequest, error) {
	c := request("encode StopWorkload")
	return encoded(c, &pb.StopWorkloadRequest{Op: c.operation(r.Op)})
}

// DecodeStopWorkloadRequest reads what EncodeStopWorkloadRequest wrote.
func DecodeStopWorkloadRequest(m *pb.StopWorkloadRequest) (sdk.StopWorkloadRequest, error) {
	c := request("decode StopWorkload")
	c.known("", m)
	return decoded(c, sdk.StopWorkloadRequest{Op: c.unoperation(m.GetOp())})
}

// EncodeStopWorkloadResponse returns r as a message.
func EncodeStopWorkloadResponse(r sdk.StopWorkloadResult) (*pb.StopWorkloadResponse, error) {
	c := reply("encode StopWorkload's result")
	return encoded(c, &pb.StopWorkloadResponse{Op: opResult(r.Op), Restores: c.intPtr("restores", r.Restores)})
}

// DecodeStopWorkloadResponse reads what EncodeStopWorkloadResponse wrote.
func DecodeStopWorkloadResponse(m *pb.StopWorkloadResponse) (sdk.StopWorkloadResult, error) {
	c := reply("decode StopWorkload's result")
	return decoded(c, sdk.StopWorkloadResult{Op: c.unopResult(m.GetOp()), Restores: c.countPtr("restores", there(m).Restores)})
}

// EncodeScaleWorkloadRequest returns r as a message.
func EncodeScaleWorkloadRequest(r sdk.ScaleWorkloadRequest) (*pb.ScaleWorkloadRequest, error) {
	c := request("encode ScaleWorkload")
	n := c.int32("replicas", r.Replicas)
	c.count("replicas", n)
	return encoded(c, &pb.ScaleWorkloadRequest{Op: c.operation(r.Op), Replicas: n})
}

// DecodeScaleWorkloadRequest reads what EncodeScaleWorkloadRequest wrote.
func DecodeScaleWorkloadRequest(m *pb.ScaleWorkloadRequest) (sdk.ScaleWorkloadRequest, error) {
	c := request("decode ScaleWorkload")
	c.known("", m)
	return decoded(c, sdk.ScaleWorkloadRequest{Op: c.unoperation(m.GetOp()), Replicas: c.count("replicas", m.GetReplicas())})
}

// EncodeScaleWorkloadResponse returns r as a message.
func EncodeScaleWorkloadResponse(r sdk.ScaleWorkloadResult) (*pb.ScaleWorkloadResponse, error) {
	return encoded(reply("encode ScaleWorkload's result"), &pb.ScaleWorkloadResponse{Op: opResult(r.Op)})
}

// DecodeScaleWorkloadResponse reads what EncodeScaleWorkloadResponse wrote.
func DecodeScaleWorkloadResponse(m *pb.ScaleWorkloadResponse) (sdk.ScaleWorkloadResult, error) {
	c := reply("decode ScaleWorkload's result")
	return decoded(c, sdk.ScaleWorkloadResult{Op: c.unopResult(m.GetOp())})
}

// EncodeRestartWorkloadRequest returns r as a message.
func EncodeRestartWorkloadRequest(r sdk.RestartWorkloadRequest) (*pb.RestartWorkloadRequest, error) {
	c := request("encode RestartWorkload")
	return encoded(c, &pb.RestartWorkloadRequest{Op: c.operation(r.Op)})
}

// DecodeRestartWorkloadRequest reads what EncodeRestartWorkloadRequest wrote.
func DecodeRestartWorkloadRequest(m *pb.RestartWorkloadRequest) (sdk.RestartWorkloadRequest, error) {
	c := request("decode RestartWorkload")
	c.known("", m)
	return decoded(c, sdk.RestartWorkloadRequest{Op: c.unoperation(m.GetOp())})
}

// EncodeRestartWorkloadResponse returns r as a message.
func EncodeRestartWorkloadResponse(r sdk.RestartWorkloadResult) (*pb.RestartWorkloadResponse, error) {
	return encoded(reply("encode RestartWorkload's result"), &pb.RestartWorkloadResponse{Op: opResult(r.Op)})
}

// DecodeRestartWorkloadResponse reads what EncodeRestartWorkloadResponse wrote.
func DecodeRestartWorkloadResponse(m *pb.RestartWorkloadResponse) (sdk.RestartWorkloadResult, error) {
	c := reply("decode RestartWorkload's result")
	return decoded(c, sdk.RestartWorkloadResult{Op: c.unopResult(m.GetOp())})
}

// EncodeApplyConfigRequest returns r as a message.
func EncodeApplyConfigRequest(r sdk.ApplyConfigRequest) (*pb.ApplyConfigRequest, error) {
	c := request("encode ApplyConfig")
	return encoded(c, &pb.ApplyConfigRequest{Op: c.operation(r.Op), Set: mapOf(r.Set, same), Unset: r.Unset,
		Secrets: mapOf(r.Secrets, func(r sdk.SecretRef) string { return string(r) })})
}

// DecodeApplyConfigRequest reads what EncodeApplyConfigRequest wrote.
func DecodeApplyConfigRequest(m *pb.ApplyConfigRequest) (sdk.ApplyConfigRequest, error) {
	c := request("decode ApplyConfig")
	c.known("", m)
	return decoded(c, sdk.ApplyConfigRequest{Op: c.unoperation(m.GetOp()), Set: mapOf(m.GetSet(), same), Unset: each(m.GetUnset(), same),
		Secrets: mapOf(m.GetSecrets(), func(s string) sdk.SecretRef { return sdk.SecretRef(s) })})
}

// EncodeApplyConfigResponse returns r as a message.
func EncodeApplyConfigResponse(r sdk.ApplyConfigResult) (*pb.ApplyConfigResponse, error) {
	return encoded(reply("encode ApplyConfig's result"), &pb.ApplyConfigResponse{Op: opResult(r.Op), Revision: r.Revision})
}

// DecodeApplyConfigResponse reads what EncodeApplyConfigResponse wrote.
func DecodeApplyConfigResponse(m *pb.ApplyConfigResponse) (sdk.ApplyConfigResult, error) {
	c := reply("decode ApplyConfig's result")
	return decoded(c, sdk.ApplyConfigResult{Op: c.unopResult(m.GetOp()), Revision: m.GetRevision()})
}

package wire

import (
	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
)

// EncodeExecWorkloadRequest returns r as the first message of its stream: all but what
// goes on while it runs.
func EncodeExecWorkloadRequest(r sdk.ExecWorkloadRequest) (*pb.ExecWorkloadRequest, error) {
	c := request("encode ExecWorkload")
	m := &pb.ExecCommand{Op: c.operation(r.Op), Instance: r.Instance, Container: r.Container, Command: argv(r.Command), HasStdin: r.Stdin != nil}
	if t := r.Terminal; t != nil {
		m.Terminal = c.size(*t)
	}
	return encoded(c, &pb.ExecWorkloadRequest{Part: &pb.ExecWorkloadRequest_Command{Command: m}})
}

// DecodeExecWorkloadRequest reads what EncodeExecWorkloadRequest wrote, and whether
// input follows.
func DecodeExecWorkloadRequest(m *pb.ExecWorkloadRequest) (r sdk.ExecWorkloadRequest, stdin bool, err error) {
	c := request("decode ExecWorkload")
	c.known("", m)
	x := m.GetCommand()
	if !c.given("command", x) {
		r, err = decoded(c, r)
		return r, false, err
	}
	r = sdk.ExecWorkloadRequest{Op: c.unoperation(x.GetOp()), Instance: x.GetInstance(), Container: x.GetContainer(), Command: unargv(x.GetCommand())}
	if t := x.GetTerminal(); t != nil {
		z := c.unsize(t)
		r.Terminal = &z
	}
	r, err = decoded(c, r)
	return r, err == nil && x.GetHasStdin(), err
}

func (c *coder) size(z sdk.TerminalSize) *pb.TerminalSize {
	return &pb.TerminalSize{Columns: c.int32("columns", z.Columns), Rows: c.int32("rows", z.Rows)}
}

func (c *coder) unsize(m *pb.TerminalSize) sdk.TerminalSize {
	return sdk.TerminalSize{Columns: c.count("columns", m.GetColumns()), Rows: c.count("rows", m.GetRows())}
}

// EncodeResize returns a new size as a message.
func EncodeResize(z sdk.TerminalSize) (*pb.ExecWorkloadRequest, error) {
	c := request("encode ExecWorkload's size")
	return encoded(c, &pb.ExecWorkloadRequest{Part: &pb.ExecWorkloadRequest_Resize{Resize: c.size(z)}})
}

// DecodeResize reads what EncodeResize wrote.
func DecodeResize(m *pb.TerminalSize) (sdk.TerminalSize, error) {
	c := request("decode ExecWorkload's size")
	return decoded(c, c.unsize(m))
}

// EncodeExecWorkloadResult returns the end as the last message of its stream.
func EncodeExecWorkloadResult(r sdk.ExecWorkloadResult) (*pb.ExecWorkloadResponse, error) {
	c := reply("encode ExecWorkload's result")
	return encoded(c, &pb.ExecWorkloadResponse{Part: &pb.ExecWorkloadResponse_End{End: &pb.ExecEnd{Instance: r.Instance,
		ExitCode: c.intPtr("exit_code", r.ExitCode), Why: plain(r.Why), Trace: plain(r.Trace), Calls: plannedCalls(r.Calls)}}})
}

// DecodeExecWorkloadResult reads what EncodeExecWorkloadResult wrote.
func DecodeExecWorkloadResult(m *pb.ExecWorkloadResponse) (sdk.ExecWorkloadResult, error) {
	c := reply("decode ExecWorkload's result")
	e := m.GetEnd()
	if !c.given("end", e) {
		return decoded(c, sdk.ExecWorkloadResult{})
	}
	r := sdk.ExecWorkloadResult{Instance: e.GetInstance(), Why: e.GetWhy(), Trace: e.GetTrace(), Calls: unplannedCalls(e.GetCalls())}
	if e.ExitCode != nil {
		n := int(e.GetExitCode()) // Windows has codes below zero
		r.ExitCode = &n
	}
	return decoded(c, r)
}

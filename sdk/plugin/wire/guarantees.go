package wire

import (
	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
)

func guarantees(g sdk.Guarantees) *pb.Guarantees {
	return &pb.Guarantees{
		SubmitBy: string(g.Submit.By), SubmitTokenWindow: span(g.Submit.TokenWindow),
		FoundWithin: span(g.Found.Within), FoundConsistent: g.Found.Consistent,
		Argv: string(g.Argv), ExitCode: string(g.ExitCode),
		Logs: &pb.LogGuarantee{
			Fidelity: string(g.Logs.Fidelity), Apart: g.Logs.Apart, DropsEmptyLines: g.Logs.DropsEmptyLines, Looks: g.Logs.Looks,
			EndProven: g.Logs.EndProven, SettleQuiet: span(g.Logs.Settle.Quiet), SettleMax: span(g.Logs.Settle.Max), Live: g.Logs.Live,
		},
		CancelReadBack: g.CancelReadBack,
		Grace: &pb.GraceGuarantee{Supported: g.Grace.Supported, Min: span(g.Grace.Min), Max: span(g.Grace.Max),
			Default: span(g.Grace.Default), AtLaunch: g.Grace.AtLaunch, Again: g.Grace.Again},
		Deadline: &pb.DeadlineGuarantee{Native: g.Deadline.Native, Min: span(g.Deadline.Min), Max: span(g.Deadline.Max), FromSubmit: g.Deadline.FromSubmit},
		Evidence: span(g.Evidence), KeepsEnded: g.KeepsEnded, Secrets: string(g.Secrets), Ambient: g.Ambient, NoImage: g.NoImage,
		Stdin:    each(g.Stdin, func(m sdk.StdinMode) string { return string(m) }),
		Workload: workloadGuarantees(g.Workload),
	}
}

// unguarantees reads a word that it doesn't know as the weakest of its kind; no word for
// the delivery of secrets is a word: there is none. A mode of standard input that the host doesn't know can't be asked for, and is left out.
func (c *coder) unguarantees(m *pb.Guarantees) sdk.Guarantees {
	l, gr, dl := m.GetLogs(), m.GetGrace(), m.GetDeadline()
	g := sdk.Guarantees{
		Submit:   sdk.SubmitGuarantee{By: submitBy(m.GetSubmitBy()), TokenWindow: c.duration("guarantees.submit_token_window", m.GetSubmitTokenWindow())},
		Found:    sdk.FoundGuarantee{Within: c.duration("guarantees.found_within", m.GetFoundWithin()), Consistent: m.GetFoundConsistent()},
		Argv:     word(m.GetArgv(), sdk.ArgvOneString, sdk.ArgvExact, sdk.ArgvSubstituting, sdk.ArgvOneList),
		ExitCode: word(m.GetExitCode(), sdk.ExitCodeAbsent, sdk.ExitCodeProcess, sdk.ExitCodePlatform),
		Logs: sdk.LogGuarantee{
			Fidelity: word(l.GetFidelity(), sdk.LogStructured, sdk.LogBytes, sdk.LogLines),
			Apart:    l.GetApart(), DropsEmptyLines: l.GetDropsEmptyLines(), Looks: l.GetLooks(), EndProven: l.GetEndProven(), Live: l.GetLive(),
			Settle: sdk.LogSettle{Quiet: c.duration("guarantees.logs.settle_quiet", l.GetSettleQuiet()), Max: c.duration("guarantees.logs.settle_max", l.GetSettleMax())},
		},
		CancelReadBack: m.GetCancelReadBack(),
		Grace: sdk.GraceGuarantee{Supported: gr.GetSupported(), Min: c.duration("guarantees.grace.min", gr.GetMin()), Max: c.duration("guarantees.grace.max", gr.GetMax()),
			Default: c.duration("guarantees.grace.default", gr.GetDefault()), AtLaunch: gr.GetAtLaunch(), Again: gr.GetAgain()},
		Deadline: sdk.DeadlineGuarantee{Native: dl.GetNative(), Min: c.duration("guarantees.deadline.min", dl.GetMin()),
			Max: c.duration("guarantees.deadline.max", dl.GetMax()), FromSubmit: dl.GetFromSubmit()},
		Evidence:   c.duration("guarantees.evidence", m.GetEvidence()),
		KeepsEnded: m.GetKeepsEnded(),
		Secrets:    word(m.GetSecrets(), sdk.SecretVisibleEnv, "", sdk.SecretReference, sdk.SecretSealed, sdk.SecretFile, sdk.SecretProcessEnv),
		Ambient:    m.GetAmbient(), NoImage: m.GetNoImage(),
		Workload: c.unworkloadGuarantees(m.GetWorkload()),
	}
	for _, s := range m.GetStdin() {
		if mode := word(s, sdk.StdinNone, sdk.StdinAttached, sdk.StdinSpooled); mode != sdk.StdinNone {
			g.Stdin = append(g.Stdin, mode)
		}
	}
	return g
}

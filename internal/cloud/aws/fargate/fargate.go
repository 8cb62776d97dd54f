// Package fargate knows the sizes that AWS Fargate has, whichever service starts
// a task there.
package fargate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

const (
	mib = 1 << 20
	// What a Fargate task gets that says neither cores nor memory.
	defaultCPU = 256
)

// sizeRow is what Fargate gives to a number of CPU units, 1,024 for a core:
// memory in MiB, one by one or from least to most in steps.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-cpu-memory-error.html
type sizeRow struct {
	cpu               int64
	only              []int64
	least, most, step int64
}

func sizes() []sizeRow {
	return []sizeRow{
		{cpu: 256, only: []int64{512, 1024, 2048}},
		{cpu: 512, least: 1024, most: 4096, step: 1024},
		{cpu: 1024, least: 2048, most: 8192, step: 1024},
		{cpu: 2048, least: 4096, most: 16384, step: 1024},
		{cpu: 4096, least: 8192, most: 30720, step: 1024},
		{cpu: 8192, least: 16384, most: 61440, step: 4096},
		{cpu: 16384, least: 32768, most: 122880, step: 8192},
	}
}

// memories returns the row's sizes, least first.
func (r sizeRow) memories() []int64 {
	if r.only != nil {
		return r.only
	}
	var out []int64
	for m := r.least; m <= r.most; m += r.step {
		out = append(out, m)
	}
	return out
}

// Size is a task's size: CPU units, 1,024 for a core, and memory in MiB.
type Size struct{ CPU, Memory int64 }

// String writes a size as a spec does.
func (s Size) String() string { return CPUText(s.CPU) + " with " + sdk.MemoryText(s.Memory*mib) }

// CPUText writes CPU units as a spec does: "2", or "250m".
func CPUText(units int64) string { return sdk.CPUText(units * 1000 / 1024) }

// Problem is a size that Fargate doesn't have: the field of the spec ("cpu" or
// "memory"), and what there is instead.
type Problem struct{ Field, Message string }

// Fit returns the size for what was asked, in thousandths of a core and in
// bytes; zero is unset and fitted. With problems the size is the nearest.
func Fit(milli, bytes int64) (Size, []Problem) {
	rows := sizes()
	units := (milli*1024 + 999) / 1000
	exact := milli == 0 || slices.ContainsFunc(rows, func(r sizeRow) bool { return r.cpu*1000 == milli*1024 })
	memory := (bytes + mib - 1) / mib
	best, covers := Size{}, false
	for _, r := range rows {
		if milli == 0 && bytes == 0 && r.cpu != defaultCPU {
			continue
		}
		for _, m := range r.memories() {
			if !covers && r.cpu >= units && m >= memory {
				best, covers = Size{r.cpu, m}, true
			}
		}
	}
	if !covers {
		last := rows[len(rows)-1]
		best = Size{last.cpu, last.most}
	}
	var ps []Problem
	cpuOK := exact && (milli == 0 || best.CPU == units)
	memoryOK := bytes == 0 || best.Memory*mib == bytes
	if milli != 0 && !exact {
		ps = append(ps, Problem{"cpu", "Fargate has " + strings.Join(cpuTexts(), ", ") + "; the nearest is " + best.String()})
	}
	if bytes != 0 && (!memoryOK || exact && !cpuOK) {
		ps = append(ps, Problem{"memory", memoryMessage(milli, exact, best, covers)})
	}
	return best, ps
}

func memoryMessage(milli int64, exact bool, best Size, covers bool) string {
	if !covers {
		return "Fargate's largest is " + best.String()
	}
	if milli == 0 || !exact {
		return "Fargate has no such size; the nearest is " + best.String()
	}
	for _, r := range sizes() {
		if r.cpu*1000 == milli*1024 {
			m := r.memories()
			return fmt.Sprintf("with %s Fargate has %s to %s in set steps; the nearest is %s", CPUText(r.cpu), sdk.MemoryText(m[0]*mib), sdk.MemoryText(m[len(m)-1]*mib), best)
		}
	}
	return "Fargate has no such size; the nearest is " + best.String()
}

func cpuTexts() []string {
	var out []string
	for _, r := range sizes() {
		out = append(out, CPUText(r.cpu))
	}
	return out
}

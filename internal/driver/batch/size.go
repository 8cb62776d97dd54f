package batch

import (
	"strconv"

	"github.com/windlass-run/windlass/internal/cloud/aws/fargate"
	"github.com/windlass-run/windlass/sdk"
)

const (
	// What a job on an instance gets that says no memory: AWS Batch wants some.
	defaultInstanceMemory = 512
	// The least memory of a container.
	// https://docs.aws.amazon.com/batch/latest/APIReference/API_ResourceRequirement.html
	minInstanceMemory = 4
	// Fargate's disk: 20 GiB, or more where that is set.
	// https://docs.aws.amazon.com/batch/latest/APIReference/API_EphemeralStorage.html
	defaultDisk = 20
	maxDisk     = 200
)

// sizes fits cores, memory and disk.
func (l *plan) sizes() {
	s := l.Spec
	if s.CPU < 0 || s.Memory < 0 {
		return // sdk.ValidateSpec has said so
	}
	if l.fargate() {
		got, ps := fargate.Fit(s.CPU, s.Memory)
		for _, p := range ps {
			l.Wrong(p.Field, "%s", p.Message)
		}
		l.def.Container.VCPU, l.def.Container.Memory = strconv.FormatFloat(float64(got.CPU)/1024, 'f', -1, 64), itoa(got.Memory)
		if s.CPU == 0 {
			l.Fit("cpu", fargate.CPUText(got.CPU), "the least that Fargate has for it")
		}
		if s.Memory == 0 {
			l.Fit("memory", sdk.MemoryText(got.Memory*mib), "the least that Fargate has for it")
		}
		if s.GPU > 0 {
			l.Lacks("gpu", "Fargate has no GPUs; use platform: ec2")
		}
		l.disk()
		return
	}
	cores, memory := (s.CPU+999)/1000, (s.Memory+mib-1)/mib
	switch {
	case s.CPU == 0:
		cores = 1
		l.Fit("cpu", "1", "AWS Batch wants whole cores")
	case s.CPU%1000 != 0:
		l.Wrong("cpu", "on instances AWS Batch takes whole cores; the nearest is %d", cores)
	}
	switch {
	case s.Memory == 0:
		memory = defaultInstanceMemory
		l.Fit("memory", sdk.MemoryText(memory*mib), "AWS Batch wants a bound")
	case memory < minInstanceMemory:
		l.Wrong("memory", "AWS Batch gives a container %dMi or more", minInstanceMemory)
	case s.Memory%mib != 0:
		l.Wrong("memory", "AWS Batch counts in MiB; the nearest is %s", sdk.MemoryText(memory*mib))
	}
	l.def.Container.VCPU, l.def.Container.Memory, l.def.Container.GPU = itoa(cores), itoa(memory), s.GPU
	if s.EphemeralStorage > 0 {
		l.Lacks("ephemeral_storage", "only on Fargate has a job a bound on its disk")
	}
}

func (l *plan) disk() {
	want := l.p.cfg.EphemeralStorage
	if s := l.Spec.EphemeralStorage; s > 0 {
		want = s / gib
		if s%gib != 0 || want < defaultDisk || want > maxDisk {
			near := min(max((s+gib-1)/gib, defaultDisk), maxDisk)
			l.Wrong("ephemeral_storage", "Fargate has %dGi to %dGi in whole GiB; the nearest is %dGi", defaultDisk, maxDisk, near)
			return
		}
	}
	if want > defaultDisk {
		l.def.Container.EphemeralStorage = int32(want)
	}
}

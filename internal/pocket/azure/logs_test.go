package azure

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/testwait"
)

// TestLogSize gives the last 4 MB of a log, and less once its group was stopped.
func TestLogSize(t *testing.T) {
	c := newCloud(t, Options{})
	const all, width = 50000, 100 // lines, and their bytes
	c.create(t, "big", job("sh", "-c", `seq -f '%099.0f' 1 50000; trap 'exit 0' TERM; while :; do sleep 0.05; done`))
	line := func(n int) string { return fmt.Sprintf("%0*d\n", width-1, n) }
	last := line(all)
	c.untilThat(t, "big", "with all its output", func(arm.ContainerGroup) bool {
		l := c.log(t, "big", &arm.ContainersClientListLogsOptions{Tail: to.Ptr[int32](1)})
		return l != nil && *l == last
	})
	full := *c.log(t, "big", nil)
	if len(full) != logBytes || !strings.HasSuffix(full, line(all-1)+last) || len(full) >= all*width {
		t.Errorf("the log has %d bytes", len(full))
	}
	c.TuneKnobs(func(k *Knobs) { k.Pace.Grace = 0 })
	if _, err := c.groups.Stop(t.Context(), ResourceGroup, "big", nil); err != nil {
		t.Fatal(err)
	}
	c.until(t, "big", "Stopped")
	if small := *c.log(t, "big", nil); len(small) != logSmallBytes || !strings.HasSuffix(small, last) {
		t.Errorf("once stopped the log has %d bytes", len(small))
	}
	c.TuneKnobs(func(k *Knobs) { k.StopDropsView = true })
	if l := c.log(t, "big", nil); l != nil || mainOf(c.get(t, "big")) != nil {
		t.Errorf("recycled, there is a log: %v", l)
	}

	c.TuneKnobs(func(k *Knobs) { k.StopDropsView = false })
	c.create(t, "short", job("sh", "-c", `seq 1 2000; trap 'exit 0' TERM; while :; do sleep 0.05; done`))
	c.untilThat(t, "short", "with all its output", func(arm.ContainerGroup) bool {
		l := c.log(t, "short", nil)
		return l != nil && strings.HasSuffix(*l, "\n2000\n")
	})
	if _, err := c.groups.Stop(t.Context(), ResourceGroup, "short", nil); err != nil {
		t.Fatal(err)
	}
	c.until(t, "short", "Stopped")
	if small := *c.log(t, "short", nil); strings.Count(small, "\n") != logSmallLines || !strings.HasPrefix(small, "1001\n") {
		t.Errorf("once stopped the log has %d lines", strings.Count(small, "\n"))
	}

	c.create(t, "wide", job("sh", "-c", `head -c 3000000 /dev/zero | tr '\0' x; echo; echo end`))
	c.until(t, "wide", "Succeeded")
	if l := *c.log(t, "wide", nil); len(l) < 3000000 || !strings.HasSuffix(l, "\nend\n") {
		t.Errorf("the log of a long line has %d bytes", len(l))
	}
	c.TuneKnobs(func(k *Knobs) { k.EndedLogSmall = true })
	if l := *c.log(t, "wide", nil); len(l) > logSmallBytes || !strings.HasSuffix(l, "\nend\n") {
		t.Errorf("by the knob it has %d bytes", len(l))
	}
}

// TestF32LogNull has no log of a container that hasn't started.
func TestF32LogNull(t *testing.T) {
	c := newCloud(t, Options{})
	c.Strike(Mishap{Group: "stuck", Stage: StageWait})
	c.create(t, "stuck", job("true"))
	if l := c.log(t, "stuck", nil); l != nil {
		t.Errorf("there is a log: %q", *l)
	}
	for code, status := range map[string]int{"ContainerGroupTransitioning": 409, "ContainerLogNotAvailable": 404} {
		c.TuneKnobs(func(k *Knobs) { k.EarlyLogs = code })
		if a := c.call(t, "GET", c.groupPath("stuck")+"/containers/main/logs", nil); a.status != status || a.code() != code {
			t.Errorf("%d %v", a.status, a.body)
		}
	}
	c.TuneKnobs(func(k *Knobs) { k.EarlyLogs = "" })
	c.create(t, "runs", job("sh", "-c", "echo up; exec sleep 100"))
	c.until(t, "runs", "Running")
	c.untilThat(t, "runs", "with output", func(arm.ContainerGroup) bool { l := c.log(t, "runs", nil); return l != nil && *l != "" })
	c.TuneKnobs(func(k *Knobs) { k.LogNull = true })
	if l := c.log(t, "runs", nil); l != nil {
		t.Errorf("by the knob there is a log: %q", *l)
	}
}

// TestLogLines asks for lines, with their times.
func TestLogLines(t *testing.T) {
	c := newCloud(t, Options{})
	c.create(t, "one", job("sh", "-c", `printf 'a\nb\r\n\nbad \377\nrest'`))
	c.until(t, "one", "Succeeded")
	const want = "a\nb\r\n\nbad \uFFFD\nrest"
	if l := *c.log(t, "one", nil); l != want {
		t.Errorf("the log is %q", l)
	}
	if l := *c.log(t, "one", &arm.ContainersClientListLogsOptions{Tail: to.Ptr[int32](2)}); l != "bad \uFFFD\nrest" {
		t.Errorf("its tail is %q", l)
	}
	stamp := regexp.MustCompile(`(?m)^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{9}Z `)
	l := *c.log(t, "one", &arm.ContainersClientListLogsOptions{Timestamps: to.Ptr(true)})
	if n := len(stamp.FindAllString(l, -1)); n != 5 || stamp.ReplaceAllString(l, "") != want {
		t.Errorf("with times it is %q", l)
	}
}

// TestLogLate shows lines late, and loses those of an earlier run by a knob.
func TestLogLate(t *testing.T) {
	c := newCloud(t, Options{})
	c.TuneKnobs(func(k *Knobs) { k.LogDelay = time.Hour })
	c.create(t, "late", job("echo", "late"))
	c.until(t, "late", "Succeeded")
	if l := c.log(t, "late", nil); l == nil || *l != "" {
		t.Errorf("the line is there at once: %v", l)
	}
	c.TuneKnobs(func(k *Knobs) { k.LogDelay = 10 * time.Millisecond })
	c.create(t, "soon", job("echo", "soon"))
	testwait.Until(t, long, "line", func() bool { l := c.log(t, "soon", nil); return l != nil && *l == "soon\n" })

	again := with(job("sh", "-c", `echo "$$"; exit 1`), func(g *arm.ContainerGroup) {
		g.Properties.RestartPolicy = to.Ptr(arm.ContainerGroupRestartPolicyOnFailure)
	})
	for _, drops := range []bool{false, true} {
		name := map[bool]string{false: "keeps", true: "drops"}[drops]
		c.TuneKnobs(func(k *Knobs) { k.LogDelay, k.RestartDropsLog = 0, drops })
		c.create(t, name, again)
		c.untilThat(t, name, "run three times", func(g arm.ContainerGroup) bool { return *mainOf(g).RestartCount >= 3 })
		if _, err := c.groups.Stop(t.Context(), ResourceGroup, name, nil); err != nil {
			t.Fatal(err)
		}
		c.until(t, name, "Stopped")
		l := c.log(t, name, nil)
		if n := 0; l != nil {
			n = strings.Count(*l, "\n")
			if drops != (n <= 1) {
				t.Errorf("%s: %d lines of several runs", name, n)
			}
		}
	}
}

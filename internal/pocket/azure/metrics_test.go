package azure

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/monitor/armmonitor"

	"github.com/windlass-run/windlass/internal/testwait"
)

// metrics asks for a group's, apart by container.
func (c *cloud) metrics(t *testing.T, group, name string) []*armmonitor.TimeSeriesElement {
	t.Helper()
	client, err := armmonitor.NewMetricsClient(SubscriptionID, principal{c, "tester", "secret"}, &arm.ClientOptions{ClientOptions: c.options, DisableRPRegistration: true})
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.List(t.Context(), c.groupPath(group)[1:], &armmonitor.MetricsClientListOptions{Metricnames: &name, Aggregation: to.Ptr("average,maximum"), Filter: to.Ptr("containerName eq '*'"),
		Timespan: to.Ptr(stamp(time.Now().Add(-5*time.Minute)) + "/" + stamp(time.Now().Add(time.Minute)))})
	if err != nil {
		t.Fatal(err)
	}
	return res.Value[0].Timeseries
}

// measured reports whether a metric has a value.
func (c *cloud) measured(t *testing.T, group, name string) bool {
	t.Helper()
	for _, s := range c.metrics(t, group, name) {
		for _, p := range s.Data {
			if p.Average != nil {
				return true
			}
		}
	}
	return false
}

// TestF102Metrics has no value for what wasn't measured, and those of a container
// that works.
func TestF102Metrics(t *testing.T) {
	c := newCloud(t, Options{})
	c.TuneKnobs(func(k *Knobs) { k.MeterEvery, k.MetricDelay = 20*time.Millisecond, time.Hour })
	c.create(t, "busy", service("sh", "-c", "while :; do :; done"))
	c.until(t, "busy", "Running")
	if c.measured(t, "busy", "MemoryUsage") {
		t.Error("there are values of what isn't shown yet")
	}
	c.TuneKnobs(func(k *Knobs) { k.MetricDelay = 0 })
	testwait.Until(t, long, "CPU", func() bool {
		for _, s := range c.metrics(t, "busy", "CpuUsage") {
			for _, p := range s.Data {
				if p.Maximum != nil && *p.Maximum > 10 {
					return *s.Metadatavalues[0].Value == "main"
				}
			}
		}
		return false
	})
	if c.measured(t, "busy", "NetworkBytesReceivedPerSecond") {
		t.Error("the network has values, which nobody measures")
	}
}
